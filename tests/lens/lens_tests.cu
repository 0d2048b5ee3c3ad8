// The lens against what the rules of the hardware say of small kernels, worked out by hand.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "common/simt/executor.hpp"
#include "tests/lens/support.hpp"

namespace stages {
namespace {

using namespace lens_tests;

constexpr int kPlaces = 33 * 64;  ///< that copy() reads from
__global__ void copy(const float* from, float* to, int stride, int offset) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = from[(i * static_cast<unsigned>(stride) + static_cast<unsigned>(offset)) % unsigned{kPlaces}];
}

TEST(Lens, SectorsGoByTheStride) {
  const DeviceArray<float> from(kPlaces);
  DeviceArray<float> to(64);
  struct Case {
    int stride, offset;
    double sectors;
  };
  // Two warps. From an odd place on, 128 bytes lie in five sectors. In the last case lanes take two in turn.
  for (const Case c : {Case{1, 0, 4},
                       {1, 1, 5},
                       {1, 8, 4},
                       {2, 0, 8},
                       {8, 0, 32},
                       {32, 0, 32},
                       {0, 0, 1},
                       {kPlaces / 2, 0, 2}}) {
    const LensView view = look(copy, 2, 32, from.data(), to.data(), c.stride, c.offset);
    const SiteCounts loads = of(view, Space::global, Access::load),
                     stores = of(view, Space::global, Access::store);
    EXPECT_EQ(loads.requests, 2u);
    EXPECT_EQ(loads.lanes, 64u);
    EXPECT_EQ(loads.of_requests(loads.cost), c.sectors) << "stride " << c.stride << ", offset " << c.offset;
    EXPECT_EQ(loads.of_requests(loads.least), c.sectors < 4 ? 1 : 4);
    EXPECT_EQ(stores.requests, 2u);
    EXPECT_EQ(stores.cost, 8u);
    EXPECT_EQ(stores.wanted_share(), 1);
  }
}

__global__ void copy_fours(const float4* from, float4* to) {
  const float4 v = __ldg(from + threadIdx.x);
  __stcs(to + threadIdx.x, make_float4(v.x + 1, v.y, v.z, v.w));
}

__global__ void copy_fours_by_calls(const float4* from, float4* to, std::size_t bytes) {
  std::memcpy(to + threadIdx.x, from + threadIdx.x, bytes);
}

TEST(Lens, AVectorIsOneAccess) {
  const DeviceArray<float4> from(32);
  DeviceArray<float4> to(32);
  for (const LensView& view : {look(copy_fours, 1, 32, from.data(), to.data()),
                               look(copy_fours_by_calls, 1, 32, from.data(), to.data(), sizeof(float4))}) {
    for (const Access access : {Access::load, Access::store}) {
      const SiteCounts sum = of(view, Space::global, access);
      EXPECT_EQ(sum.requests, 1u);
      EXPECT_EQ(sum.cost, 16u);
    }
  }
}

/// Thread i adds up from[0] .. from[lengths[i] - 1].
__global__ void add_rows(const float* from, const int* lengths, float* to) {
  float sum = 0;
  for (int k = 0; k < lengths[threadIdx.x + blockIdx.x * blockDim.x]; ++k) sum += from[k];
  to[threadIdx.x + blockIdx.x * blockDim.x] = sum;
}

/// A hub row holds up its warp, and its block; sectors alone do not show it.
TEST(Lens, TheBusiestWarpAndBlockAreTold) {
  const DeviceArray<float> from = zeros<float>(100);
  DeviceArray<float> to(256);
  for (const int longest : {1, 100}) {
    const DeviceArray<int> lengths = on_device<int>(256, [&](int i) { return i == 70 ? longest : 1; });
    const LensView view = look(add_rows, 2, 128, from.data(), lengths.data(), to.data());
    const simt::KernelCounts& counts = view.kernels.at(0).counts;
    // Of a warp the load of the lengths, one a turn, and the store. Warp 2 of the first block has the hub.
    const double one = 3, hub = 2 + longest;
    EXPECT_EQ(counts.warp.busiest, hub);
    EXPECT_EQ(counts.warp.mean, (7 * one + hub) / 8);
    EXPECT_EQ(counts.block.busiest, 3 * one + hub);
    EXPECT_EQ(counts.block.mean, (7 * one + hub) / 2);
    const auto metrics = counted_metrics(view.bound, {.op = Op::spmv, .nnz = 255 + longest});
    EXPECT_EQ(metrics.at(0).value, view.bound.sectors / (255 + longest)) << metrics[0].name;
    EXPECT_EQ(metrics.at(3).value, counts.warp.over_mean()) << metrics[3].name;
  }
}

__global__ void row_sums(const int* ends, const float* values, float* sums, int rows) {
  for (int row = static_cast<int>(threadIdx.x); row < rows; row += static_cast<int>(blockDim.x)) {
    float sum = 0;
    for (int p = row == 0 ? 0 : ends[row - 1]; p < ends[row]; ++p) sum += values[p];
    if (sum != 0) sums[row] = sum;
  }
}

TEST(Lens, LanesOfALoopWaitForTheLongest) {
  // Rows of 1 to 64 entries by a warp: in each of two rounds the longest decides, and the others come back
  // after it.
  constexpr int kEntries = 64 * 65 / 2;
  const auto ends = on_device<int>(64, [](int i) { return (i + 1) * (i + 2) / 2; });
  const auto values = on_device<float>(kEntries, [](int) { return 1.0f; });
  DeviceArray<float> sums(64);
  const LensView view = look(row_sums, 1, 32, ends.data(), values.data(), sums.data(), 64);
  std::uint64_t of_values = 0;
  for (const LensSite& site : view.kernels.at(0).sites)
    if (site.counts.access == Access::load && site.counts.lanes == kEntries) of_values = site.counts.requests;
  EXPECT_EQ(of_values, 32u + 64u);
  EXPECT_EQ(of(view, Space::global, Access::store).requests, 2u);
}

__global__ void firsts(const int* keys, unsigned n, int* out) {
  const unsigned lane = threadIdx.x % 32;
  for (unsigned first = 0; first < n; first += 32) {
    const unsigned i = first + lane;
    const bool mine = i < n && (i == 0 || keys[i - 1] != keys[i]);
    const unsigned lanes = __ballot_sync(~0u, mine);
    if (mine) {
      int sum = keys[i];
      for (unsigned k = i + 1; k < n && keys[k] == keys[i]; ++k) sum += keys[k];
      out[__popc(lanes & ((1u << lane) - 1))] = sum;
    }
    out += __popc(lanes);
  }
}

TEST(Lens, CodeThatStandsBehindTheLoopIsNoLoop) {
  // The way of the first lane, which does not ask for the key before it, is put behind the rest.
  const auto keys = on_device<int>(64, [](int i) { return i / 2; });
  DeviceArray<int> out(64);
  const LensView view = look(firsts, 1, 32, keys.data(), 64u, out.data());
  EXPECT_EQ(of(view, Space::global, Access::store).requests, 2u);
  EXPECT_EQ(of(view, Space::global, Access::store).lanes, 32u);
}

__global__ void long_way(const float* from, float* to, int turns) {
  float sum = 0;
  for (int i = 0; i < turns; ++i) sum += from[static_cast<unsigned>(i) * 32 + threadIdx.x % 32];
  if (threadIdx.x % 2 == 0)
    for (int i = 0; i < turns; ++i) sum -= from[static_cast<unsigned>(i) * 32 + threadIdx.x % 32];
  to[threadIdx.x] = sum;
}

TEST(Lens, WhatAThreadDoesMayBeOfAnyLength) {
  constexpr int kTurns = 5000;
  const DeviceArray<float> from(32 * kTurns);
  DeviceArray<float> to(64);
  for (const char* schedule : {"forward", "reverse", "random:7"}) {
    simt::set_schedule(schedule);
    const LensView view = look(long_way, 1, 64, from.data(), to.data(), kTurns);
    const SiteCounts loads = of(view, Space::global, Access::load);
    EXPECT_EQ(loads.requests, 2u * 2u * kTurns) << schedule;
    EXPECT_EQ(loads.lanes, 2u * 48u * kTurns) << schedule;
    EXPECT_EQ(of(view, Space::global, Access::store).requests, 2u) << schedule;
    EXPECT_EQ(view.kernels.at(0).counts.read_sectors, 4u * kTurns);
  }
  simt::set_schedule("");
}

__global__ void chains(const int* next, int* found) {
  const unsigned half = threadIdx.x / 16 * 16;
  const unsigned mask = 0xffffu << half;
  int at = static_cast<int>(threadIdx.x);
  for (int i = 0; i < 8; ++i) at = __shfl_sync(mask, next[at], 0, 16);
  found[threadIdx.x] = at;
}

TEST(Lens, HalvesThatMeetApartStayTogether) {
  const auto next = on_device<int>(32, [](int i) { return i; });
  DeviceArray<int> found(32);
  const SiteCounts loads = of(look(chains, 1, 32, next.data(), found.data()), Space::global, Access::load);
  EXPECT_EQ(loads.requests, 8u);
  EXPECT_EQ(loads.lanes, 8u * 32u);
}

__global__ void histogram(const int* keys, int* counts, float* sum, int* most) {
  __shared__ int own[4];
  if (threadIdx.x < 4) own[threadIdx.x] = 0;
  __syncthreads();
  const int key = keys[threadIdx.x];
  atomicAdd(&own[key], 1);
  atomicAdd(sum, 1.0f);
  atomicMax(most, key);
  __syncthreads();
  if (threadIdx.x < 4) atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}

TEST(Lens, AtomicsAreOneRequestAndLanesMeet) {
  const auto keys = on_device<int>(32, [](int i) { return i % 4; });
  auto counts = zeros<int>(4), most = zeros<int>(1);
  auto sum = zeros<float>(1);
  const LensView view = look(histogram, 1, 32, keys.data(), counts.data(), sum.data(), most.data());
  const SiteCounts shared = of(view, Space::shared, Access::atomic),
                   global = of(view, Space::global, Access::atomic);
  EXPECT_EQ(shared.requests, 1u);
  EXPECT_EQ(shared.meeting_lanes, 28u);
  EXPECT_EQ(global.requests, 3u);
  EXPECT_EQ(global.lanes, 32u + 32u + 4u);
  EXPECT_EQ(global.meeting_lanes, 31u + 31u);
  EXPECT_EQ(of(view, Space::global, Access::load).requests, 1u);
  EXPECT_EQ(of(view, Space::shared, Access::load).requests, 1u);
  ASSERT_EQ(view.kernels.at(0).waits.size(), 2u);
  for (const auto& [place, times] : view.kernels[0].waits) EXPECT_EQ(times, 1u);
}

TEST(Lens, TheBoundIsTheSlowestPath) {
  const simt::KernelCounts kernel = {
      .blocks = 2,
      .read_sectors = 30,
      .sites = {{.access = Access::load, .space = Space::global, .requests = 8, .cost = 40},
                {.access = Access::store, .space = Space::global, .requests = 3, .cost = 6},
                {.access = Access::load, .space = Space::shared, .cost = 12}}};
  GpuRates rates{.gpu = "G", .l2_bytes = 1e9, .sms = 4, .wavefronts = 1, .shortest = 0.1};
  const Bound l1 = bound_of({kernel}, rates);
  EXPECT_EQ(l1.limit, "L1 and shared memory");
  EXPECT_EQ(l1.seconds, (40 / 4 + 12) / 2.0);  // two blocks have two of the four SMs
  EXPECT_EQ(l1.sectors, 46);
  // Three such kernels may run side by side, on all four SMs.
  EXPECT_EQ(bound_of({kernel, kernel, kernel}, rates).seconds, 3 * 22 / 4.0);
  rates.l2_bytes = 32;
  EXPECT_EQ(bound_of({kernel}, rates).limit, "reads of L2");
  EXPECT_EQ(bound_of({kernel}, rates).seconds, 30);
  rates.shortest = 31;
  const Bound launch = bound_of({kernel}, rates);
  EXPECT_EQ(launch.limit, "launch");
  std::map<std::string, double> limits;  // all of them, the shorter ones too
  for (const Bound::Limit& limit : launch.limits) limits[limit.name] = limit.seconds;
  EXPECT_EQ(limits,
            (std::map<std::string, double>{
                {"launch", 31}, {"L1 and shared memory", 11}, {"reads of L2", 30}, {"writes to L2", 6}}));
  EXPECT_EQ(bound_of({}, rates).sectors, 0);
  EXPECT_GT(recorded_rates().l2_bytes, 1e12);
}

__device__ float middle(const float* from, unsigned i) {
  return from[i];  // the line of the load
}
constexpr unsigned kLineOfLoad = __LINE__ - 2;

__global__ void calls(const float* from, float* to) {
  to[threadIdx.x] = middle(from, threadIdx.x);  // the line of the call
}
constexpr unsigned kLineOfCall = __LINE__ - 2;

TEST(Lens, LinesAreThoseOfTheSource) {
  const DeviceArray<float> from(32);
  DeviceArray<float> to(32);
  const LensView view = look(calls, 1, 32, from.data(), to.data());
  ASSERT_EQ(view.kernels.size(), 1u);
  EXPECT_EQ(view.kernels[0].name, "calls");
  ASSERT_EQ(view.kernels[0].sites.size(), 2u);
  const LensSite& load = view.kernels[0].sites[0];
  ASSERT_EQ(load.lines.size(), 2u);
  EXPECT_EQ(load.lines[0].file, "tests/lens/lens_tests.cu");
  EXPECT_EQ(load.lines[0].line, kLineOfLoad);
  EXPECT_EQ(load.lines[1].line, kLineOfCall);
}

// What may go wrong in a kernel, behind something that was counted.
enum class Fault { wild_address, wild_store, division, recursion, deadlock, endless_loads, endless };

__device__ int deeper(volatile int* p, int depth) {
  volatile int room[256] = {};
  room[depth % 256] = *p;
  return depth == 0 ? 0 : deeper(p, depth + 1) + room[depth % 256];
}

__global__ void goes_wrong(int* a, Fault fault, int zero) {
  a[threadIdx.x] = 1;
  __syncwarp();
  if (threadIdx.x != 5) return;
  int* const nowhere = reinterpret_cast<int*>(std::size_t{64});
  volatile int* const flag = &a[40];
  if (fault == Fault::wild_address) a[1] = nowhere[zero];
  if (fault == Fault::wild_store) nowhere[zero] = a[1];
  if (fault == Fault::division) a[1] = 7 / zero;
  if (fault == Fault::recursion) a[1] = deeper(flag, 1);
  if (fault == Fault::deadlock) spin_until([&] { return *flag == 17; });
  while (fault == Fault::endless_loads && *flag != 17) {
  }
  unsigned x = 1;
  while (fault == Fault::endless && x != 0) asm volatile("" : "+r"(x));
}
constexpr unsigned kLineOfGoesWrong = __LINE__ - 14;

TEST(Lens, WhatACrashLeavesIsAPartAndHasALine) {
  struct Case {
    Fault fault;
    const char* says;
    unsigned line;  // of the kernel
  };
  simt::set_watchdog(0.3);
  for (const Case& c : {Case{Fault::wild_address, "it touches address 0x40", 5},
                        {Fault::wild_store, "it touches address 0x40", 6},
                        {Fault::division, "divided by zero", 7},
                        {Fault::recursion, "its stack is used up", 0},
                        {Fault::deadlock, "deadlock", 9},
                        {Fault::endless_loads, "no progress", 10},
                        {Fault::endless, "no progress", 0}}) {
    auto a = zeros<int>(64);
    const LensView view = look(goes_wrong, 1, 32, a.data(), c.fault, 0);
    EXPECT_NE(view.problem.find(c.says), std::string::npos) << view.problem;
    const std::string line = c.line > 0
                                 ? fmt::format("tests/lens/lens_tests.cu:{}", kLineOfGoesWrong + c.line - 1)
                                 : "tests/lens/lens_tests.cu:";
    EXPECT_NE(view.problem.find(line), std::string::npos) << line << " in " << view.problem;
    ASSERT_EQ(view.kernels.size(), 1u);
    std::uint64_t stores = 0;
    for (const SiteCounts& sum : sums_of(view.kernels)) stores += sum.access == Access::store ? sum.lanes : 0;
    EXPECT_GE(stores, 32u);
    cudaGetLastError();
  }
  simt::set_watchdog(0);
  // The next launch is as good as ever.
  const DeviceArray<float> from(32);
  DeviceArray<float> to(32);
  EXPECT_EQ(look(calls, 1, 32, from.data(), to.data()).problem, "");
}

TEST(Lens, NothingIsCountedUnlessAsked) {
  const DeviceArray<float> from(32);
  DeviceArray<float> to(32);
  launch(calls, {.grid = 1, .block = 32}, from.data(), to.data());
  EXPECT_TRUE(look_at("test", [] {}).kernels.empty());
}

}  // namespace
}  // namespace stages
