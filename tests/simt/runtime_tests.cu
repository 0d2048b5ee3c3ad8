// The runtime subset behaves like CUDA's: copies, streams, events, graphs, attributes, errors; and the
// wrappers of common/gpu on top of it. Runs on both backends.

#include <numeric>

#include "common/gpu/architectures.hpp"
#include "common/gpu/exec.hpp"
#include "common/gpu/facts.hpp"
#include "common/gpu/scan.hpp"
#include "tests/simt/support.hpp"

namespace stages::simt_tests {
namespace {

using Runtime = KernelTest;

__global__ void add_one(int n, int* x) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) x[i] += 1;
}

TEST_F(Runtime, ArraysGoThereAndBack) {
  std::vector<int> host(1000);
  std::iota(host.begin(), host.end(), 0);
  const Stream stream;
  DeviceArray<int> a{std::span<const int>(host)}, b(1000), empty(0);
  STAGES_CUDA(cudaMemcpyAsync(b.data(), a.data(), b.bytes(), cudaMemcpyDeviceToDevice, stream));
  launch(add_one, {blocks_for(1000, 128), 128, 0, stream}, 1000, b.data());
  PinnedArray<int> back(1000);
  b.download(back, stream);
  stream.synchronize();
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(back[static_cast<std::size_t>(i)], i + 1);
  launch(add_one, {1, 1}, 0, back.data());  // kernels may use pinned memory, too
  EXPECT_EQ(empty.data(), nullptr);
  EXPECT_TRUE(empty.to_host().empty());
  empty.upload({}, stream);
  a.upload(std::span<const int>(host).subspan(500), stream);
  a.fill_bytes(0xff, stream);
  EXPECT_EQ(a.to_host()[999], -1);
  EXPECT_THROW(empty.upload(host, stream), Error);
}

TEST_F(Runtime, MemoryIsCountedAndGivenBack) {
  const std::size_t before = free_device_bytes();
  {
    DeviceArray<char> a(std::size_t{64} << 20);
    EXPECT_LE(free_device_bytes(), before - (std::size_t{64} << 20));
    DeviceArray<char> b = std::move(a);
    EXPECT_EQ(b.size(), std::size_t{64} << 20);
  }
  EXPECT_EQ(free_device_bytes(), before);
}

TEST_F(Runtime, AGraphRepeatsWhatWasCapturedAlsoInStreamsThatEventsLead) {
  const Stream first, second;
  const Event fork, join;
  DeviceArray<int> x(10);
  x.zero(first);
  Graph graph;
  {
    int n = 10;  // gone before the replay: the graph has its own copy
    graph = Graph::capture(first, [&] {
      launch(add_one, {1, 32, 0, first}, n, x.data());
      fork.record(first);
      STAGES_CUDA(cudaStreamWaitEvent(second, fork, 0));
      launch(add_one, {1, 32, 0, second}, n, x.data());
      join.record(second);
      STAGES_CUDA(cudaStreamWaitEvent(first, join, 0));
    });
  }
  EXPECT_EQ(x.to_host()[9], 0) << "captured work must not run";
  for (int i = 0; i < 5; ++i) graph.replay(first);
  first.synchronize();  // the two streams know nothing of each other outside of the graph
  launch(add_one, {1, 32, 0, second}, 10, x.data());
  EXPECT_EQ(x.to_host()[9], 11);
}

TEST_F(Runtime, BlockingCallsEndACapture) {
  const Stream stream;
  EXPECT_THROW(Graph::capture(stream, [] { DeviceArray<int> a(10); }), Error);
  EXPECT_THROW(Graph::capture(stream, [&] { stream.synchronize(); }), Error);
  DeviceArray<int> x(1);
  x.zero(stream);
  launch(add_one, {1, 1, 0, stream}, 1, x.data());
  EXPECT_EQ(x.to_host()[0], 1) << "the stream is usable again";
}

TEST_F(Runtime, EventsTimeOnlyWhatIsReal) {
  const Stream stream;
  const EventTimer timer;
  DeviceArray<int> x(1);
  timer.start(stream);
  launch(add_one, {1, 1, 0, stream}, 1, x.data());
  timer.stop(stream);
  EXPECT_EQ(timer.seconds().has_value(), !device_facts().simulated);
  EXPECT_EQ(copy_bytes_per_second() > 0, !device_facts().simulated);
}

TEST_F(Runtime, FactsAndAttributes) {
  EXPECT_EQ(device_problem(), "");
  const DeviceFacts& f = device_facts();
  EXPECT_GE(10 * f.cc_major + f.cc_minor, kLeastCapability);
  EXPECT_GE(code_capability(), kLeastCapability);
  EXPECT_LE(code_capability(), 10 * f.cc_major + f.cc_minor);
  EXPECT_EQ(can_launch_early(), code_capability() >= 90);
  EXPECT_GE(f.sms, 1);
  EXPECT_EQ(f.shared_per_block, 48u * 1024);
  EXPECT_GE(f.shared_per_block_optin, 64u * 1024);
  EXPECT_LE(f.shared_per_block_optin, f.shared_per_sm);
  EXPECT_GE(f.driver_version, 1);
  const KernelFacts k = kernel_facts(add_one);
  EXPECT_EQ(k.registers.has_value(), !f.simulated) << "what is not known is not 0";
  EXPECT_EQ(k.spilled_bytes.has_value(), !f.simulated);
  EXPECT_EQ(k.max_threads_per_block, 1024);
  GpuExec().flush_caches();
}

TEST_F(Runtime, WorkOnAnotherStreamIsTimed) {
  GpuExec exec;
  if (exec.simulated()) GTEST_SKIP() << "the executor takes no times";
  DeviceArray<unsigned char> bytes(std::size_t{256} << 20);
  const Stream other;
  const auto fill = [&](cudaStream_t stream) {
    return exec.time([&] {
      for (int i = 0; i < 20; ++i) bytes.zero(stream);
    });
  };
  fill(other);
  const double own = fill(exec.stream());
  EXPECT_GT(fill(other), 0.5 * own);
  EXPECT_LT(exec.time([] {}), 0.1 * own) << "and nothing is added where there is none";
}

#if !STAGES_SIMULATED
/// Follows a chain of `steps` elements, one after another, past L1.
__global__ void follow(const unsigned* next, int steps, unsigned* end) {
  unsigned at = 0;
  for (int i = 0; i < steps; ++i) at = __ldcg(next + at);
  *end = at;
}

TEST_F(Runtime, AColdRunFindsNothingThatL2WasToKeep) {
  int most = 0;
  STAGES_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxPersistingL2CacheSize, 0));
  if (most == 0) GTEST_SKIP() << "this GPU keeps nothing in L2";
  const auto bytes = static_cast<std::size_t>(most) / 4;
  STAGES_CUDA(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, bytes));
  constexpr unsigned kLine = 32;  // elements
  const auto lines = static_cast<unsigned>(bytes / sizeof(unsigned) / kLine);
  std::vector<unsigned> links(lines * kLine);
  for (unsigned k = 0; k < lines; ++k) links[k * kLine] = (k + 4099) % lines * kLine;
  const DeviceArray<unsigned> next{std::span<const unsigned>(links)};
  DeviceArray<unsigned> end(1);
  DeviceArray<unsigned char> others(2 * device_facts().l2_bytes);
  GpuExec exec;
  cudaStreamAttrValue window = {};
  window.accessPolicyWindow.base_ptr = const_cast<unsigned*>(next.data());
  window.accessPolicyWindow.num_bytes = next.bytes();
  window.accessPolicyWindow.hitRatio = 1;
  window.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
  window.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
  STAGES_CUDA(cudaStreamSetAttribute(exec.stream(), cudaStreamAttributeAccessPolicyWindow, &window));
  const auto seconds = [&] {
    return exec.time([&] {
      launch(follow, {.grid = 1, .block = 1, .stream = exec.stream()}, next.data(), 20000, end.data());
    });
  };
  seconds();
  const double hot = seconds();
  others.zero(exec.stream());
  const double kept = seconds();
  exec.flush_caches();
  const double cold = seconds();
  STAGES_CUDA(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 0));
  if (kept > 1.1 * hot) GTEST_SKIP() << "it was not kept: " << kept << " s, and " << hot << " s before";
  EXPECT_GT(cold, 1.3 * hot);
}
#endif

TEST_F(Runtime, Occupancy) {
  const DeviceFacts& f = device_facts();
  const int threads = f.max_threads_per_sm;
  EXPECT_GE(threads, 1024);
  EXPECT_EQ(resident_blocks_per_sm(add_one, 1024, 0), threads / 1024);
  EXPECT_EQ(resident_blocks_per_sm(add_one, 256, 0), threads / 256);
  EXPECT_GE(resident_blocks_per_sm(add_one, 32, 0), 16);
  EXPECT_LE(resident_blocks_per_sm(add_one, 32, 0), 32);
  const std::size_t reserved = f.shared_per_sm - f.shared_per_block_optin, bytes = 40 * 1024;
  EXPECT_EQ(resident_blocks_per_sm(add_one, 64, bytes), f.shared_per_sm / (bytes + reserved));
}

TEST(Architectures, MachineCodeRunsOnItsMajorNumberAndPtxOnAllLater) {
  EXPECT_EQ(code_for("80-real,90", 75), CodeFor::none);
  EXPECT_EQ(code_for("80-real,90", 80), CodeFor::machine);
  EXPECT_EQ(code_for("80-real,90", 86), CodeFor::machine);
  EXPECT_EQ(code_for("80-real,90", 90), CodeFor::machine);
  EXPECT_EQ(code_for("80-real,90", 100), CodeFor::ptx);
  EXPECT_EQ(code_for("80-real", 90), CodeFor::none);
  EXPECT_EQ(code_for("86-real", 80), CodeFor::none) << "not on an earlier minor number";
  EXPECT_EQ(code_for("86", 80), CodeFor::none) << "nor is its PTX";
  EXPECT_EQ(code_for("75-virtual", 75), CodeFor::ptx);
  EXPECT_EQ(code_for("75-virtual", 90), CodeFor::ptx);
  EXPECT_EQ(code_for("90a", 90), CodeFor::machine);
  EXPECT_EQ(code_for("90a", 100), CodeFor::none) << "PTX of 90a is for 9.0 alone";
  EXPECT_EQ(code_for("100f", 103), CodeFor::machine);
  EXPECT_EQ(code_for("100f", 120), CodeFor::none);
  EXPECT_EQ(code_for("all-major", 75), CodeFor::machine) << "no list that we know how to read";
  EXPECT_EQ(code_for("", 90), CodeFor::none);
}

TEST(Architectures, WhatIsMissingIsSaidWithHowToMendIt) {
  EXPECT_EQ(code_problem("75-real,80-real,90", "Tesla T4", 75, 12040, 12080), "");
  EXPECT_EQ(code_problem("75-real,80-real,90", "B200", 100, 13000, 13000), "");
  EXPECT_EQ(code_problem("80,90", "Tesla T4", 75, 13000, 13000),
            "this build has code for sm_80, sm_90; the Tesla T4 is sm_75: configure with "
            "-DCMAKE_CUDA_ARCHITECTURES=75 and build again");
  EXPECT_EQ(
      code_problem("80-real,90", "B200", 100, 12060, 12080),
      "this build has code for sm_80, sm_90; the B200 is sm_100, for which the driver (CUDA 12.6) would "
      "have to compile PTX of CUDA 12.8: configure with -DCMAKE_CUDA_ARCHITECTURES=100 and build again");
  EXPECT_EQ(code_problem("70,80", "Tesla V100", 70, 13000, 13000),
            "the Tesla V100 is sm_70; the kernels need compute capability 7.5 or later");
  EXPECT_EQ(
      old_driver(12020, 13000),
      "the driver is for CUDA 12.2, and this program was built with CUDA 13.0: install a newer driver, or "
      "build with an older CUDA");
}

TEST_F(Runtime, ErrorsAreRememberedOnce) {
  static_cast<void>(cudaGetLastError());
  EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  const std::string error = error_of([] { STAGES_CUDA(cudaSetDevice(99)); });
  expect_mentions(error, {"runtime_tests.cu:", "cudaSetDevice(99)", "cudaErrorInvalidDevice"});
}

TEST_F(Runtime, AnEmptyGridIsNoWork) {
  launch(add_one, {0, 128}, 0, nullptr);
  EXPECT_EQ(blocks_for(0, 128), 0u);
  EXPECT_EQ(blocks_for(129, 128), 2u);
  EXPECT_THROW(blocks_for(std::int64_t{1} << 40, 128), Error);
}

template <class Count, class Sum>
void expect_scanned(std::int64_t n) {
  std::vector<Count> counts(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = static_cast<Count>(i * 7919 % 100);
  if (sizeof(Sum) == 8 && n > 10) counts[3] = counts[5] = 2'000'000'000;  // beyond 32 bits together
  const Stream stream;
  DeviceArray<Count> in{std::span<const Count>(counts)};
  DeviceArray<Sum> out(static_cast<std::size_t>(n) + 1);
  PrefixSum<Count, Sum> scan;
  scan.reserve(n);
  const Graph graph = Graph::capture(stream, [&] { scan.run(in.data(), out.data(), n, stream); });
  graph.replay(stream);
  stream.synchronize();
  const auto host = out.to_host();
  Sum expected = 0;
  for (std::size_t i = 0; i <= counts.size(); ++i) {
    ASSERT_EQ(host[i], expected) << i;
    if (i < counts.size()) expected += static_cast<Sum>(counts[i]);
  }
}
TEST_F(Runtime, PrefixSums) {
  for (const std::int64_t n : {0, 1, 31, 1000, 100'001}) {
    expect_scanned<std::int32_t, std::int32_t>(n);
    expect_scanned<std::int32_t, std::int64_t>(n);
    expect_scanned<std::int64_t, std::int64_t>(n);
  }
}

/// A phase's time is read with the next clock that stops, so one that has only ended must be forgotten too.
TEST(GpuExec, ClearingForgetsPhasesThatAreNotReadYet) {
  GpuExec exec;
  { const Phase phase(exec, "before"); }
  exec.clear_phases();
  exec.time([&] { const Phase phase(exec, "within"); });
  ASSERT_EQ(exec.phases().size(), 1U);
  EXPECT_EQ(exec.phases()[0].name, "within");
}

}  // namespace
}  // namespace stages::simt_tests
