// What tracing costs on the executor: a product with its accesses counted, with races looked for, and with
// neither, over one by kernels that were compiled without the calls (the same program as lens_bench_without).
// Medians of rounds that take turns, with their quartiles.

#include <fmt/format.h>
#include <stdio.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>

#include "bench/bench.hpp"
#include "common/gpu/exec.hpp"
#include "common/harness/clock.hpp"
#include "common/harness/product.hpp"
#include "common/harness/seconds.hpp"
#include "common/matrix/generate.hpp"
#include "common/simt/lens/counts.hpp"
#include "common/simt/lens/races.hpp"

namespace stages {

void add_04_cuda_shared(Registry& registry);
void add_05_cuda_csr(Registry& registry);

namespace {

const std::vector<std::pair<std::string, std::string>> kProducts = {
    {"04_cuda_shared/shared_memory", "gen:fixed:n=1024,zeros=0.8"},
    {"05_cuda_csr/thread_per_row", "gen:uniform:n=200000,per_row=10"},
    {"05_cuda_csr/warp_per_row", "gen:uniform:n=20000,per_row=10"},
};

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return seconds_since(start);
}

std::vector<std::function<void()>> products(Exec& exec) {
  Registry registry;
  add_04_cuda_shared(registry);
  add_05_cuda_csr(registry);
  std::vector<std::function<void()>> runs;
  for (const auto& [name, matrix] : kProducts) {
    const auto a = std::make_shared<const Csr<float>>(generate<float>(matrix));
    runs.push_back(one_product(registry.find(name), make_spmv_problem<float>(matrix, a), exec));
    runs.back()();
  }
  return runs;
}

/// A time of each product, as the other program prints them.
std::vector<double> times_of(const std::string& program) {
  std::vector<double> times(kProducts.size());
  const std::unique_ptr<FILE, int (*)(FILE*)> out(popen(fmt::format("'{}' --once", program).c_str(), "r"),
                                                  pclose);
  for (double& time : times) {
    if (!out || fscanf(out.get(), "%lf", &time) != 1) fail("{}: prints no times; build it", program);
  }
  return times;
}

std::string ratio(const std::vector<double>& times, const std::vector<double>& of) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < times.size(); ++i) ratios.push_back(times[i] / of[i]);
  const Summary all = summarize(std::move(ratios));
  return fmt::format("{:5.2f} ({:.2f} .. {:.2f})", all.median, all.q1, all.q3);
}

int run(int argc, char** argv) {
  CLI::App app("Measures what tracing costs on the executor. Nothing else should run beside it.");
  int rounds = 15;
  bool once = false;
  app.add_option("--rounds", rounds, "times that each product is taken")->capture_default_str();
  app.add_flag("--once", once, "print one time of each product, and no more");
  CLI11_PARSE(app, argc, argv);
  GpuExec exec;
  const auto runs = products(exec);
  if (once) {
    for (const auto& product : runs) fmt::print("{}\n", seconds_of(product));
    return 0;
  }
  const std::string without = std::filesystem::canonical("/proc/self/exe").string() + "_without";
  struct Times {
    std::vector<double> bare, plain, counted, races;
  };
  std::vector<Times> all(runs.size());
  for (int round = 0; round < rounds; ++round) {
    const std::vector<double> bare = times_of(without);
    for (std::size_t k = 0; k < runs.size(); ++k) {
      all[k].bare.push_back(bare[k]);
      all[k].plain.push_back(seconds_of(runs[k]));
      simt::begin_counting();
      all[k].counted.push_back(seconds_of(runs[k]));
      simt::end_counting();
      simt::begin_races(true);
      all[k].races.push_back(seconds_of(runs[k]));
      simt::end_races();
    }
  }
  fmt::print("{:<30} {:>9} {:>20} {:>20} {:>20}\n", "times without the calls (quartiles)", "", "not traced",
             "counted", "races");
  for (std::size_t k = 0; k < runs.size(); ++k) {
    const Times& t = all[k];
    fmt::print("{:<30} {:>6.1f} ms {:>20} {:>20} {:>20}\n", kProducts[k].first,
               1e3 * summarize(t.bare).median, ratio(t.plain, t.bare), ratio(t.counted, t.bare),
               ratio(t.races, t.bare));
  }
  return 0;
}

}  // namespace
}  // namespace stages

int main(int argc, char** argv) {
  return stages::bench::exit_code_of("lens_bench", [&] { return stages::run(argc, argv); });
}
