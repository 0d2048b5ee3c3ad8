// The executor finds what is wrong with memory: uninitialised, freed, on the wrong side, or beyond its end.

#include <cmath>

#include "common/gpu/cuda.hpp"
#include "common/simt/sanitizer.hpp"
#include "common/simt/shared_memory.hpp"
#include "tests/simt/support.hpp"

namespace stages::simt_tests {
namespace {

class MemoryFaults : public KernelTest {};

__global__ void sum_uninitialised(const float* x, float* y) { y[threadIdx.x] += x[threadIdx.x]; }
TEST_F(MemoryFaults, UninitialisedDeviceMemoryIsNaN) {
  const std::vector<float> ones(32, 1);
  DeviceArray<float> x{std::span<const float>(ones)}, y(32);
  launch(sum_uninitialised, {1, 32}, x.data(), y.data());
  for (const float v : y.to_host()) EXPECT_TRUE(std::isnan(v));
  DeviceArray<double> d(3);
  EXPECT_TRUE(std::isnan(d.to_host()[2]));
}

// Block 0 fills its arrays; the others must not find its values there.
__global__ void uninitialised_shared(float2* out) {
  __shared__ float left_over[32];
  float* dynamic = dynamic_shared<float>();
  if (blockIdx.x == 0) left_over[threadIdx.x] = dynamic[threadIdx.x] = 1;
  out[blockIdx.x * 32 + threadIdx.x] = {left_over[threadIdx.x], dynamic[threadIdx.x]};
}
TEST_F(MemoryFaults, SharedMemoryOfTheLastBlockIsGone) {
  DeviceArray<float2> out(32 * 64);
  for (int repeat = 0; repeat < 3; ++repeat) {
    launch(uninitialised_shared, {64, 32, 32 * sizeof(float)}, out.data());
    const auto host = out.to_host();
    EXPECT_EQ(host[0].x + host[0].y, 2.f);
    for (std::size_t i = 32; i < host.size(); ++i) {
      EXPECT_TRUE(std::isnan(host[i].x)) << "static, block " << i / 32;
      EXPECT_TRUE(std::isnan(host[i].y)) << "dynamic, block " << i / 32;
    }
  }
}

__global__ void read_one(const float* x, float* y) { y[0] = x[0]; }
struct View {
  int n;
  const float* x;
};
struct Nested {
  View inner;
  double scale;
};
__global__ void read_view(Nested v, float* y) { y[0] = v.inner.x[0]; }

TEST_F(MemoryFaults, FreedMemoryIsRefused) {
  DeviceArray<float> y(1);
  const float* const stale = DeviceArray<float>(1).data();
  expect_fault({"argument 1", "freed"}, read_one, {1, 1}, stale, y.data());
  EXPECT_NE(cudaFree(const_cast<float*>(stale)), cudaSuccess) << "freed twice";
  expect_mentions(simt::error_detail(), {"already freed"});
}

TEST_F(MemoryFaults, ADestroyedStreamIsRefused) {
  const Event event;
  DeviceArray<float> x(1);
  cudaStream_t gone = nullptr;
  void* taken = nullptr;
  {
    const Stream stream;
    gone = stream;
    ASSERT_EQ(cudaMallocAsync(&taken, 4, stream), cudaSuccess);
  }
  void* more = nullptr;
  EXPECT_EQ(cudaMallocAsync(&more, 4, gone), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaFreeAsync(taken, gone), cudaErrorInvalidResourceHandle);
  expect_mentions(simt::error_detail(), {"stream", "does not exist"});
  EXPECT_EQ(cudaMemsetAsync(x.data(), 0, x.bytes(), gone), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamSynchronize(gone), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamWaitEvent(gone, event), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(event, gone), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(gone), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaFreeAsync(taken, nullptr), cudaSuccess);
}

TEST_F(MemoryFaults, HostPointersAreRefusedByKernels) {
  DeviceArray<float> y(1);
  std::vector<float> host(1);
  float local = 0;
  expect_fault({"argument 1", "host memory"}, read_one, {1, 1}, host.data(), y.data());
  expect_fault({"argument 2", "host memory"}, read_one, {1, 1}, y.data(), &local);
  const Nested view{{1, host.data()}, 1.0};
  expect_fault({"argument 1", "host memory"}, read_view, {1, 1}, view, y.data());
  launch(read_view, {1, 1}, Nested{{1, y.data()}, 1.0}, y.data());
  launch(read_one, {0, 1}, host.data(), y.data());  // nothing to run, nothing to refuse
}

TEST_F(MemoryFaults, CopiesWithTheWrongPointersAreRefused) {
  DeviceArray<float> d(4);
  std::vector<float> h(8);
  const auto refused = [](void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    return error_of([&] { STAGES_CUDA(cudaMemcpy(to, from, bytes, kind)); });
  };
  expect_mentions(refused(d.data(), d.data(), 4, cudaMemcpyHostToDevice), {"source is device memory"});
  expect_mentions(refused(d.data(), d.data(), 4, cudaMemcpyDeviceToHost), {"destination is device memory"});
  expect_mentions(refused(h.data(), h.data(), 4, cudaMemcpyHostToDevice), {"destination is host memory"});
  expect_mentions(refused(h.data(), h.data(), 4, cudaMemcpyDeviceToHost), {"source is host memory"});
  expect_mentions(refused(h.data(), d.data(), 20, cudaMemcpyDeviceToHost), {"20 bytes", "holds only 16"});
  expect_mentions(refused(d.data() + 1, h.data(), 16, cudaMemcpyHostToDevice), {"holds only 12"});
  expect_mentions(error_of([&] { STAGES_CUDA(cudaMemset(h.data(), 0, 4)); }), {"host memory"});
  STAGES_CUDA(cudaMemcpy(h.data(), d.data(), 16, cudaMemcpyDeviceToHost));
}

constexpr unsigned kOutOfBoundsLine = __LINE__ + 2;
__global__ void one_too_many(const float* x, int n, float* y) {
  if (static_cast<int>(threadIdx.x) <= n) y[threadIdx.x] = x[threadIdx.x] + 1;
}
constexpr unsigned kDynamicLine = __LINE__ + 1;
__global__ void beyond_dynamic_shared(const float* x, int n) { dynamic_shared<float>()[n] = x[0] + 1; }

#if STAGES_SIMT_ASAN

__global__ void write_through(float** stale) { (*stale)[0] = 1; }
__global__ void beyond_static_shared(int* out) {
  __shared__ int tile[16];
  tile[threadIdx.x] = 1;
  out[0] = tile[0];
}
__global__ void misaligned(const float* x, float4* out) { out[0] = *reinterpret_cast<const float4*>(x + 1); }

TEST_F(MemoryFaults, SanitizersTellTheLine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  DeviceArray<float> x(101), y(100);
  EXPECT_DEATH(
      launch(one_too_many, {1, 128}, x.data(), 100, y.data()),
      "heap-buffer-overflow.*one_too_many.*memory_fault_tests.cu:" + std::to_string(kOutOfBoundsLine));
  EXPECT_DEATH(
      launch(beyond_dynamic_shared, {1, 1, 64}, x.data(), 16),
      "heap-buffer-overflow.*beyond_dynamic_shared.*memory_fault_tests.cu:" + std::to_string(kDynamicLine));
  DeviceArray<float*> hidden(1);
  float* const stale = DeviceArray<float>(1).data();
  hidden.upload(std::span<float* const>(&stale, 1), nullptr);
  EXPECT_DEATH(launch(write_through, {1, 1}, hidden.data()),
               "heap-use-after-free.*write_through.*memory_fault_tests.cu");
  DeviceArray<int> out(1);
  EXPECT_DEATH(launch(beyond_static_shared, {1, 32}, out.data()),
               "memory_fault_tests.cu:.*index 16 out of bounds");
  DeviceArray<float4> vector(1);
  EXPECT_DEATH(launch(misaligned, {1, 1}, x.data(), vector.data()),
               "memory_fault_tests.cu:.*misaligned address");
}

#else

// Also where what is written is made of a canary (behind the first), or of junk.
TEST_F(MemoryFaults, CanariesShowWritesOutOfBounds) {
  const DeviceArray<float> as_many(100), junk(101), zero = zeros<float>(101);
  DeviceArray<float> y(100);
  for (const DeviceArray<float>* from : {&as_many, &junk, &zero}) {
    expect_fault({"beyond the 400 bytes of a device array", "memory_fault_tests.cu"}, one_too_many, {1, 128},
                 from->data(), 100, y.data());
    simt::lay_canary(reinterpret_cast<std::byte*>(y.data() + 100));  // so that nothing else complains as well
    expect_fault({"64 bytes of dynamic shared memory", "memory_fault_tests.cu"}, beyond_dynamic_shared,
                 {1, 1, 64}, from->data(), 16);
  }
}
TEST_F(MemoryFaults, FreedMemoryHoldsJunk) {
  const std::vector<float> one(1, 1.f);
  const float* const p = DeviceArray<float>{std::span<const float>(one)}.data();
  EXPECT_TRUE(std::isnan(*p));
}

#endif

}  // namespace
}  // namespace stages::simt_tests
