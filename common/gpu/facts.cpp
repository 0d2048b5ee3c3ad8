#include "common/gpu/facts.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "common/gpu/architectures.hpp"
#include "common/gpu/memory.hpp"
#include "common/gpu/stream.hpp"

namespace stages {

#if STAGES_SIMULATED
namespace {

std::string problem_of_code() { return {}; }

}  // namespace

int code_capability() { return simt::compute_capability(); }
#else
/// Of a kernel of ours: probe.cu.
cudaError_t probe_attributes(cudaFuncAttributes& attributes);

namespace {

/// Why the current device does not run this program's code; empty where it does.
std::string problem_of_code() {
  int device = 0, driver = 0, runtime = 0;
  cudaDeviceProp p = {};
  STAGES_CUDA(cudaGetDevice(&device));
  STAGES_CUDA(cudaGetDeviceProperties(&p, device));
  STAGES_CUDA(cudaDriverGetVersion(&driver));
  STAGES_CUDA(cudaRuntimeGetVersion(&runtime));
  return code_problem(STAGES_ARCHITECTURES, p.name, 10 * p.major + p.minor, driver, runtime);
}

}  // namespace

int code_capability() {
  static const int capability = [] {
    cudaFuncAttributes attributes = {};
    STAGES_CUDA(probe_attributes(attributes));
    return attributes.ptxVersion;
  }();
  return capability;
}
#endif

std::string device_problem() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return problem_of_code();
  static_cast<void>(cudaGetLastError());
  if (status == cudaSuccess) return "no CUDA device";
#if !STAGES_SIMULATED
  int driver = 0, runtime = 0;
  if (status == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0 &&
      cudaRuntimeGetVersion(&runtime) == cudaSuccess) {
    return old_driver(driver, runtime);
  }
#endif
  return std::string("no usable CUDA device: ") + cudaGetErrorString(status);
}

namespace {

std::mutex g_allowed_mutex;

std::size_t& allowed_here(const void* kernel) {
  static std::map<std::pair<int, const void*>, std::size_t> allowed;
  int device = 0;
  STAGES_CUDA(cudaGetDevice(&device));
  return allowed[{device, kernel}];
}

}  // namespace

std::size_t allowed_shared_bytes(const void* kernel) {
  const std::lock_guard lock(g_allowed_mutex);
  return allowed_here(kernel);
}

void note_allowed_shared_bytes(const void* kernel, std::size_t bytes) {
  const std::lock_guard lock(g_allowed_mutex);
  allowed_here(kernel) = bytes;
}

const DeviceFacts& device_facts() {
  static const DeviceFacts facts = [] {
    int device = 0;
    STAGES_CUDA(cudaGetDevice(&device));
    cudaDeviceProp p = {};
    STAGES_CUDA(cudaGetDeviceProperties(&p, device));
    DeviceFacts f;
    f.name = p.name;
    f.simulated = STAGES_SIMULATED;
    f.cc_major = p.major;
    f.cc_minor = p.minor;
    f.sms = p.multiProcessorCount;
    f.max_threads_per_sm = p.maxThreadsPerMultiProcessor;
    f.l2_bytes = static_cast<std::size_t>(p.l2CacheSize);
    f.shared_per_block = p.sharedMemPerBlock;
    f.shared_per_block_optin = p.sharedMemPerBlockOptin;
    f.shared_per_sm = p.sharedMemPerMultiprocessor;
    f.registers_per_sm = static_cast<std::size_t>(p.regsPerMultiprocessor);
    f.memory_bytes = p.totalGlobalMem;
#if !STAGES_SIMULATED
    static_assert(sizeof f.uuid == sizeof p.uuid);
    std::memcpy(f.uuid.data(), &p.uuid, sizeof p.uuid);
#endif
    STAGES_CUDA(cudaDriverGetVersion(&f.driver_version));
    STAGES_CUDA(cudaRuntimeGetVersion(&f.runtime_version));
    return f;
  }();
  return facts;
}

std::size_t free_device_bytes() {
  std::size_t free_bytes = 0, total_bytes = 0;
  STAGES_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
  return free_bytes;
}

double copy_bytes_per_second() {
  if (STAGES_SIMULATED) return 0;
  static const double best = [] {
    // Several times L2, so that the copy meets memory on both sides.
    const std::size_t bytes = std::max<std::size_t>(std::size_t{256} << 20, 4 * device_facts().l2_bytes);
    DeviceArray<unsigned char> from(bytes), to(bytes);
    const Stream stream;
    const EventTimer timer;
    from.zero(stream);
    double rate = 0;
    for (int run = 0; run < 12; ++run) {
      timer.start(stream);
      STAGES_CUDA(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, stream));
      timer.stop(stream);
      rate = std::max(rate, 2.0 * static_cast<double>(bytes) / timer.seconds().value_or(1e30));
    }
    return rate;
  }();
  return best;
}

KernelFacts kernel_facts(const cudaFuncAttributes& attributes) {
  KernelFacts facts;
  facts.max_threads_per_block = attributes.maxThreadsPerBlock;
  if (STAGES_SIMULATED) return facts;
  facts.registers = attributes.numRegs;
  facts.spilled_bytes = attributes.localSizeBytes;
  return facts;
}

}  // namespace stages
