// The program `gather_bench`: how fast a GPU reads rows at random places, which is what SpMM does once for
// each non-zero. From it comes the gather model of step 7: a product takes no less than nnz x n_cols x 4
// bytes at the rate of a B of its size, unless rows of B are found in L1.
//
//   gather_bench                     a table: sizes of B downwards, bytes of a row that are read across
//   gather_bench --stride 1024       rows lie 1024 bytes apart (N = 256), a strip of each is read
//   gather_bench --json gather.json
//
// Groups of lanes with a vector of 16 bytes each read rows whose numbers they draw themselves, so that
// nothing but B is read; eight reads are under way in a lane. B holds ones, and the sum of what was read is
// checked. Times are medians of five runs, warm. TB/s are 1e12 bytes a second.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "bench/bench.hpp"
#include "common/gpu/cuda.hpp"
#include "common/gpu/exec.hpp"
#include "common/gpu/facts.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;
constexpr unsigned kAhead = 8;

/// Ones, so that sums are known.
__global__ void fill_with_ones(float* b, std::size_t size) {
  const std::size_t i = std::size_t{blockIdx.x} * kBlock + threadIdx.x;
  if (i < size) b[i] = 1;
}

/// A number that looks random (the finaliser of MurmurHash3).
__device__ inline unsigned scramble(unsigned x) {
  x = (x ^ (x >> 16U)) * 0x85ebca6bU;
  x = (x ^ (x >> 13U)) * 0xc2b2ae35U;
  return x ^ (x >> 16U);
}

/// Each group of kLanes reads 16 kLanes bytes of kAhead x `rounds` of the `rows` rows, which lie `vectors` x
/// 16 bytes apart. `sums`: of each thread.
template <unsigned kLanes>
__global__ void __launch_bounds__(kBlock)
    gather(const float4* b, unsigned rows, unsigned vectors, unsigned rounds, float* sums) {
  const unsigned thread = blockIdx.x * kBlock + threadIdx.x, group = thread / kLanes;
  const float4* const from = b + thread % kLanes;
  float sum = 0;
  for (unsigned r = 0; r < rounds; ++r) {
    float4 read[kAhead];
#pragma unroll
    for (unsigned u = 0; u < kAhead; ++u) {
      const unsigned drawn = scramble((group * rounds + r) * kAhead + u);
      const auto row = static_cast<unsigned>((std::uint64_t{drawn} * rows) >> 32U);
      read[u] = __ldg(from + std::size_t{row} * vectors);
    }
#pragma unroll
    for (unsigned u = 0; u < kAhead; ++u) sum += (read[u].x + read[u].y) + (read[u].z + read[u].w);
  }
  sums[thread] = sum;
}

/// Bytes a second; unknown on the executor. Throws Error if something else than ones was read.
template <unsigned kLanes>
std::optional<double> measure(GpuExec& exec, const DeviceArray<float>& b, unsigned rows, unsigned vectors,
                              double bytes) {
  const unsigned blocks = static_cast<unsigned>(device_facts().sms) * (exec.simulated() ? 1 : 256);
  const unsigned threads = blocks * kBlock;
  const double bytes_of_round = 16.0 * kAhead * threads;
  const auto rounds = static_cast<unsigned>(std::max(1.0, bytes / bytes_of_round));
  DeviceArray<float> sums(threads);
  const auto run = [&] {
    launch(gather<kLanes>, {.grid = blocks, .block = kBlock, .stream = exec.stream()},
           reinterpret_cast<const float4*>(b.data()), rows, vectors, rounds, sums.data());
  };
  exec.time(run);  // warm
  std::vector<double> seconds;
  for (int k = 0; k < 5; ++k) seconds.push_back(exec.time(run));
  std::sort(seconds.begin(), seconds.end());
  for (const float sum : sums.to_host()) {
    if (sum != static_cast<float>(4 * kAhead * rounds)) {
      fail("gather_bench: a thread summed up {}, not {}", sum, 4 * kAhead * rounds);
    }
  }
  if (exec.simulated()) return std::nullopt;
  return bytes_of_round * rounds / seconds[2];
}

struct Arguments {
  std::vector<double> megabytes = {5, 10, 20, 30, 40, 60, 100, 200, 300, 600, 1200, 2500};
  unsigned stride = 0;
  std::string json;
};

/// One line of the table: rates of pieces of 64, 128, 256 and 512 bytes, as far as rows have them.
std::vector<std::optional<double>> measure_size(GpuExec& exec, double size, unsigned stride) {
  DeviceArray<float> b(static_cast<std::size_t>(size / sizeof(float)) / 256 * 256);
  launch(fill_with_ones,
         {.grid = blocks_for(static_cast<std::int64_t>(b.size()), kBlock),
          .block = kBlock,
          .stream = exec.stream()},
         b.data(), b.size());
  const double bytes = exec.simulated() ? 0 : 4e9;
  std::vector<std::optional<double>> rates;
  const auto add = [&]<unsigned kLanes>() {
    const unsigned apart = stride == 0 ? 16 * kLanes : stride;
    if (apart < 16 * kLanes) return;
    const auto rows = static_cast<unsigned>(b.bytes() / apart);
    rates.push_back(measure<kLanes>(exec, b, rows, apart / 16, bytes));
  };
  add.operator()<4>();
  add.operator()<8>();
  add.operator()<16>();
  add.operator()<32>();
  return rates;
}

int run(int argc, char** argv) {
  CLI::App app("Measures how fast rows are read at random places.");
  Arguments arguments;
  app.add_option("--megabytes", arguments.megabytes, "sizes of B")->delimiter(',')->capture_default_str();
  app.add_option("--stride", arguments.stride, "bytes from row to row, 64 to 4096; 0: as many as are read")
      ->check(CLI::Range(0, 4096));
  app.add_option("--json", arguments.json, "a file for the rates");
  CLI11_PARSE(app, argc, argv);
  if (const std::string problem = device_problem(); !problem.empty()) {
    fmt::print(stderr, "gather_bench: {}\n", problem);
    return 77;
  }
  if (arguments.stride % 64 != 0) fail("gather_bench: --stride {}: give a multiple of 64", arguments.stride);
  GpuExec exec;
  fmt::print("TB/s of random pieces of rows on {}\n{:>8} {:>7} {:>7} {:>7} {:>7}\n", exec.device(), "MB",
             "64 B", "128 B", "256 B", "512 B");
  nlohmann::json rates = nlohmann::json::array();
  for (const double megabytes : arguments.megabytes) {
    fmt::print("{:8}", megabytes);
    int piece = 64;
    for (const std::optional<double>& rate : measure_size(exec, megabytes * 1e6, arguments.stride)) {
      fmt::print(" {:>7}", rate ? fmt::format("{:.2f}", *rate * 1e-12) : "?");
      if (rate)
        rates.push_back({{"b_bytes", megabytes * 1e6}, {"piece_bytes", piece}, {"bytes_per_second", *rate}});
      piece *= 2;
    }
    fmt::print("\n");
    std::fflush(stdout);
  }
  bench::write_record(arguments.json,
                      {{"device", exec.device()}, {"stride", arguments.stride}, {"rates", rates}});
  return 0;
}

}  // namespace
}  // namespace stages

int main(int argc, char** argv) {
  return stages::bench::exit_code_of("gather_bench", [&] { return stages::run(argc, argv); });
}
