// The executor finds what it says it finds: every planted bug is reported, with the place where it is.

#include <chrono>
#include <cmath>
#include <map>

#include "common/gpu/cluster.hpp"
#include "common/gpu/tensor.hpp"
#include "common/simt/executor.hpp"
#include "tests/simt/support.hpp"

namespace stages::simt_tests {
namespace {

constexpr unsigned kAll = 0xffffffffu;
const std::string kFile = "fault_tests.cu";

class Faults : public KernelTest {
 protected:
  ~Faults() override {
    simt::set_watchdog(0);
    simt::set_deadline({});
  }
};

using Kernel = void (*)(int*);

/// The lines where these kernels begin.
std::map<Kernel, unsigned>& heads() {
  static std::map<Kernel, unsigned> all;
  return all;
}
#define KERNEL(NAME)                                                \
  __global__ void NAME(int* out);                                   \
  const bool NAME##_noted = heads().emplace(NAME, __LINE__).second; \
  __global__ void NAME([[maybe_unused]] int* out)

/// Launches with zeroed memory; the report must have all `parts`. "@3" is the third line of the kernel's body.
void expect_told(Kernel kernel, const LaunchConfig& config, std::vector<std::string> parts) {
  for (std::string& part : parts)
    if (part.front() == '@')
      part =
          fmt::format("{}:{}", kFile, heads().at(kernel) + static_cast<unsigned>(std::stoi(part.substr(1))));
  auto out = zeros<int>(64);
  expect_fault(parts, kernel, config, out.data());
}

__global__ void nothing(int) {}
KERNEL(divergent_barrier) {
  if (threadIdx.x < 16) {
    __syncthreads();
    out[0] = 1;
  }
  __syncthreads();
}
KERNEL(two_barriers_are_not_one) {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
KERNEL(outside_its_mask) { out[threadIdx.x] = __shfl_sync(0x0000ffffu, 1, 0); }
KERNEL(different_masks) {
  if (threadIdx.x < 16) {
    out[threadIdx.x] = __shfl_sync(kAll, 1, 0);
  } else {
    out[threadIdx.x] = __shfl_sync(0xffff0001u, 1, 0);
  }
}
KERNEL(diverged_warp) {
  int v = 1;
  for (unsigned i = 0; i <= threadIdx.x % 2; ++i) {
    v += __shfl_xor_sync(kAll, v, 1);  // the odd lanes come once more than the even ones
  }
  __syncwarp();
  out[threadIdx.x] = v;
}
KERNEL(width_that_is_no_power_of_two) { out[threadIdx.x] = __shfl_down_sync(kAll, 1, 1u, 12); }
KERNEL(tiles_of_a_part_of_a_warp) {
  if (threadIdx.x == 5) return;
  const float a[4] = {1, 1, 1, 1}, b[2] = {1, 1};
  float d[4] = {};
  multiply_tiles(d, a, b);
  out[threadIdx.x] = static_cast<int>(d[0]);
}
KERNEL(wait_for_each_other) {
  if (threadIdx.x < 8) {
    __syncthreads();
  } else if (threadIdx.x < 32) {
    __syncwarp();
  }
}
KERNEL(wait_for_nobody) {
  const cuda::atomic_ref<int, cuda::thread_scope_device> ref(*out);
  if (threadIdx.x == 3) spin_until([&] { return ref.load(cuda::memory_order_acquire) == 1; });
  __syncthreads();
}
// Without a cooperative launch there is no promise that all blocks run at once.
KERNEL(wait_for_a_block_that_cannot_start) {
  atomicAdd(out, 1);
  spin_until([&] { return __ldcg(out) == static_cast<int>(gridDim.x); });
}
KERNEL(grid_barrier_that_a_block_misses) {
  if (blockIdx.x != 1) grid_sync();
}
KERNEL(grid_barrier_of_any_launch) { grid_sync(); }
KERNEL(throws) { throw std::runtime_error("planted"); }
KERNEL(traps) {
  if (blockIdx.x == 1) __trap();
}

TEST_F(Faults, AreToldWithTheirPlaces) {
  expect_told(two_barriers_are_not_one, {1, 32}, {"divergent barrier", "@2", "@4"});
  expect_told(outside_its_mask, {1, 32}, {"wrong mask", "lane 16", "0x0000ffff", "thread (16,0,0)", "@0"});
  expect_told(diverged_warp, {1, 32}, {"diverged warp", "@3", "@5"});
  expect_told(width_that_is_no_power_of_two, {1, 32}, {"width", kFile});
  for (const bool cooperative : {false, true})
    expect_told(wait_for_nobody, {2, 8, 0, nullptr, cooperative},
                {"deadlock", "block (0,0,0): thread 3: waiting in a loop", "block (1,0,0)", "@2",
                 "threads 0-2, 4-7: at a block barrier"});
  expect_told(wait_for_a_block_that_cannot_start, {500, 1},
              {"deadlock", "of 500 blocks not started", "waiting in a loop"});
  expect_told(grid_barrier_that_a_block_misses, {3, 4, 0, nullptr, true},
              {"deadlock", "block (0,0,0): threads 0-3: at the grid barrier", "block (2,0,0)"});
  expect_told(grid_barrier_of_any_launch, {3, 4}, {"not cooperative", kFile});
  expect_told(throws, {5, 5}, {"the kernel threw: planted", kFile});
  expect_told(traps, {5, 5}, {"__trap()", "block (1,0,0)", kFile});
  launch(nothing, {5, 5}, 0);  // and the next one is none the worse for it
}

TEST_F(Faults, AreToldInEveryOrderOfThreads) {
  in_every_order([] {
    expect_told(divergent_barrier, {3, 64}, {"divergent barrier", "@2", "@5"});
    expect_told(different_masks, {1, 32}, {"wrong mask", "@2", "@4"});
    expect_told(tiles_of_a_part_of_a_warp, {1, 32}, {"part of a warp", "0xffffffdf", "@4"});
    expect_told(wait_for_each_other, {1, 48},
                {"deadlock", "threads 0-7: at a block barrier", "@2", "threads 8-31: in a warp function",
                 "@4", "threads 32-47: exited"});
  });
}

constexpr unsigned kMisalignedLine = __LINE__ + 3;
__global__ void misaligned_vectors(const float* from, float* to, bool load) {
  if (load) {
    const float4 v = __ldg(reinterpret_cast<const float4*>(from));
    to[0] = v.x;
  } else {
    __stcs(reinterpret_cast<float4*>(to), float4{1, 2, 3, 4});
  }
}
TEST_F(Faults, AVectorThatIsNotAligned) {
  DeviceArray<float> from(8), to(8);
  launch(misaligned_vectors, {1, 1}, from.data() + 4, to.data(), true);
  launch(misaligned_vectors, {1, 1}, from.data(), to.data() + 4, false);
  expect_fault({"misaligned access", "16 bytes", fmt::format("{}:{}", kFile, kMisalignedLine)},
               misaligned_vectors, {1, 1}, from.data() + 1, to.data(), true);
  expect_fault({"misaligned access", "16 bytes", fmt::format("{}:{}", kFile, kMisalignedLine + 3)},
               misaligned_vectors, {1, 1}, from.data(), to.data() + 2, false);
}

__global__ void from_outside_the_mask(float* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_down_sync(0x0000ffffu, 1.0f, 8u);
}
TEST_F(Faults, AShuffleFromOutsideTheMaskIsJunk) {
  DeviceArray<float> out(16);
  launch(from_outside_the_mask, {1, 32}, out.data());
  EXPECT_EQ(out.to_host()[7], 1.0f);
  EXPECT_TRUE(std::isnan(out.to_host()[8]));
}

__global__ void too_early(unsigned* out) {
  unsigned* mine = dynamic_shared<unsigned>();
  if (blockIdx.x == 0) {
    spin_until([&] { return __ldcg(out) == 1; });
    out[1] = *cluster_shared(mine, 1);  // the other block has ended
  } else {
    __stcg(out, 1u);
  }
}
TEST_F(Faults, AClustersSharedMemoryEndsWithItsBlock) {
  auto out = zeros<unsigned>(2);
  LaunchConfig config{2, 1, 16};
  config.cluster = 2;
  const std::string error = error_of([&] {
    for (int i = 0; i < 1000; ++i) {  // the other block may still be about to end
      out.zero(nullptr);
      launch(too_early, config, out.data());
    }
  });
  expect_mentions(error, {"block 1 of the cluster has not begun or has ended", kFile});
}

// The full hash table: the probe finds no free slot and goes round for ever.
KERNEL(full_table) {
  for (unsigned slot = 0; atomicCAS(&out[slot], -1, 5) != -1;) slot = (slot + 1) % 64;
}
TEST_F(Faults, AnEndlessLoopOfAtomicsIsStopped) {
  simt::set_watchdog(0.3);
  expect_told(full_table, {1, 2}, {"no progress", "STAGES_WATCHDOG", "@1"});
}

TEST_F(Faults, ADeadlineStopsAKernelAndLetsNoneBegin) {
  auto table = zeros<int>(64);
  simt::set_deadline(std::chrono::steady_clock::now() + std::chrono::milliseconds(300));
  EXPECT_FALSE(simt::missed_deadline());
  for (int time = 0; time < 2; ++time) {
    expect_fault({"it was to end before now"}, full_table, {1, 2}, table.data());
    EXPECT_TRUE(simt::missed_deadline());
  }
  simt::set_deadline({});
  EXPECT_FALSE(simt::missed_deadline());
  ASSERT_EQ(cudaMemset(table.data(), 0xff, 64 * sizeof(int)), cudaSuccess);
  launch(full_table, {1, 2}, table.data());
}

__global__ void endless(int* out) {
  volatile int* v = out;
  while (*v == 0) {
  }
}
TEST_F(Faults, AnEndlessLoopWithoutAtomicsEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        simt::set_watchdog(0.2);
        auto out = zeros<int>(1);
        launch(endless, {1, 1}, out.data());
      },
      "fault_tests.cu:.*has not moved");
}

TEST_F(Faults, LaunchesBeyondTheLimitsAreRefused) {
  const auto refused = [](const LaunchConfig& config) {
    return error_of([&] { launch(nothing, config, 0); });
  };
  launch(nothing, {1, 1024}, 0);
  expect_mentions(refused({1, 1025}), {"cudaErrorInvalidConfiguration", "1024"});
  expect_mentions(refused({1, dim3(1, 1, 65)}), {"cudaErrorInvalidConfiguration", "64 in z"});
  expect_mentions(refused({1, 0}), {"block is empty"});
  expect_mentions(refused({dim3(1, 65536), 1}), {"cudaErrorInvalidConfiguration", "65535"});
  expect_mentions(refused({0x80000000u, 1}), {"cudaErrorInvalidConfiguration", "2147483647"});
  expect_mentions(refused({1, 1, 48 * 1024 + 1}), {"49152", "MaxDynamicSharedMemorySize"});
  const std::string resident =
      std::to_string(device_facts().sms * (device_facts().max_threads_per_sm / 1024));
  expect_mentions(refused({500, 1024, 0, nullptr, true}),
                  {"cudaErrorCooperativeLaunchTooLarge", resident + " can run at once"});
  LaunchConfig clustered{4, 32};
  clustered.cluster = 2;
  expect_mentions(refused(clustered), {"cudaErrorNotSupported", "a cluster of 2 in a grid of 4"});
  clustered.cluster = 4;
  if (has_clusters(4)) {
    launch(nothing, clustered, 0);
  } else {
    expect_mentions(refused(clustered), {"cudaErrorNotSupported", "a cluster of 4"});
  }
  const std::size_t most = device_facts().shared_per_block_optin;
  allow_shared_bytes(nothing, most);
  allow_shared_bytes(nothing, most / 2);  // takes nothing back
  launch(nothing, {1, 1, most}, 0);
  expect_mentions(error_of([&] { allow_shared_bytes(nothing, most + 1); }), {std::to_string(most)});
}

__global__ void fills_a_tile(int* out) {
  __shared__ int tile[512];
  tile[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = tile[511 - threadIdx.x] + dynamic_shared<int>()[0] * 0;
}

// The executor does not know how much static memory a kernel has; but it sees how much a block has written.
TEST_F(Faults, StaticAndDynamicSharedMemoryTogetherMustFit) {
  DeviceArray<int> out(512);
  const std::size_t most = device_facts().shared_per_block_optin;
  launch(fills_a_tile, {1, 512, 48 * 1024 - 2048}, out.data());
  expect_fault({"2048 bytes or more of static shared memory beside 47108", "49152"}, fills_a_tile,
               {1, 512, 48 * 1024 - 2044}, out.data());
  allow_shared_bytes(fills_a_tile, most);
  launch(fills_a_tile, {1, 512, most - 2048}, out.data());
  expect_fault({"2048 bytes or more of static shared memory"}, fills_a_tile, {1, 512, most - 2044},
               out.data());
}

__global__ void reduces(int* out) {
  out[threadIdx.x] = __reduce_max_sync(0xffffffffu, static_cast<int>(threadIdx.x));
}

TEST_F(Faults, WhatADeviceLacksIsAFault) {
  if (code_capability() >= 80) GTEST_SKIP() << "the language's test runs it";
  DeviceArray<int> out(32);
  expect_fault({"__reduce_max_sync needs compute capability 8.0; this device has 7.5", kFile}, reduces,
               {1, 32}, out.data());
}

TEST_F(Faults, TooMuchMemoryIsItsOwnError) {
  EXPECT_THROW(DeviceArray<char>(free_device_bytes() + 1), OutOfDeviceMemory);
}

TEST_F(Faults, DeviceFunctionsOnTheHostAreErrors) {
  expect_mentions(error_of([] { __syncthreads(); }), {"outside a kernel", kFile});
  expect_mentions(error_of([] { __syncwarp(); }), {"outside a kernel", kFile});
}

__global__ void note_block(int* next, int* order) {
  order[atomicAdd(next, 1)] = static_cast<int>(blockIdx.x);
}
TEST_F(Faults, TheOrderOfBlocksChangesToo) {
  // A worker may be kept from running for as long as it likes, so no one place in the order is certain.
  for (const bool forward : {true, false}) {
    use_schedule(forward ? "forward" : "reverse");
    auto next = zeros<int>(1);
    DeviceArray<int> order(1000);
    launch(note_block, {1000, 1}, next.data(), order.data());
    const auto blocks = order.to_host();
    int upwards = 0;
    for (std::size_t i = 1; i < blocks.size(); ++i) upwards += blocks[i] > blocks[i - 1] ? 1 : 0;
    const int as_asked = forward ? upwards : 999 - upwards;
    EXPECT_GT(as_asked, 600) << (forward ? "forward" : "reverse");
  }
}

// Where a barrier is missing, this order is what shows it.
__global__ void record_order(int* next, int* order) {
  order[atomicAdd(next, 1)] = static_cast<int>(threadIdx.x);
  __syncthreads();
  order[atomicAdd(next, 1)] = static_cast<int>(threadIdx.x);
}
std::vector<int> order_under(const std::string& schedule) {
  use_schedule(schedule);
  auto next = zeros<int>(1);
  DeviceArray<int> order(512);
  launch(record_order, {1, 256}, next.data(), order.data());
  return order.to_host();
}
TEST_F(Faults, ThreadsRunInTheOrderOfTheScheduleBeforeABarrierAndAfterIt) {
  const std::vector<int> forward = order_under("forward"), reverse = order_under("reverse");
  for (int i = 0; i < 512; ++i) {
    EXPECT_EQ(forward[static_cast<std::size_t>(i)], i % 256);
    EXPECT_EQ(reverse[static_cast<std::size_t>(i)], 255 - i % 256);
  }
  EXPECT_EQ(order_under("random:7"), order_under("random:7"));
  EXPECT_NE(order_under("random:7"), order_under("random:8"));
  EXPECT_THROW(simt::set_schedule("sideways"), Error);
  EXPECT_THROW(simt::set_schedule("random:"), Error);
}

}  // namespace
}  // namespace stages::simt_tests
