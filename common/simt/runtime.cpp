// Launches, the device, and errors.

#include "common/simt/runtime.hpp"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <unordered_map>

#include "common/simt/executor.hpp"
#include "common/simt/numbers.hpp"
#include "common/simt/runtime_parts.hpp"
#include "common/simt/sanitizer.hpp"

namespace stages::simt {
namespace {

thread_local cudaError_t t_last = cudaSuccess;
thread_local std::string t_detail;

std::mutex g_function_mutex;
/// What cudaFuncSetAttribute asked for, by kernel.
std::unordered_map<const void*, std::size_t>& dynamic_limits() {
  static std::unordered_map<const void*, std::size_t> instance;
  return instance;
}

/// `limit`: of dynamic shared memory.
cudaError_t check_shape(const Grid& g, std::size_t limit) {
  const auto refuse = [](std::string detail) {
    return error(cudaErrorInvalidConfiguration, std::move(detail));
  };
  const std::uint64_t threads = g.threads_of_block();
  if (threads == 0) return refuse("the block is empty");
  if (threads > 1024 || g.block.z > 64)
    return refuse(fmt::format("a block of {} x {} x {} threads; the limits are 1024 threads, and 64 in z",
                              g.block.x, g.block.y, g.block.z));
  if (g.grid.x == 0 || g.grid.y == 0 || g.grid.z == 0) return refuse("the grid is empty");
  if (g.grid.x > 0x7fffffffu || g.grid.y > 65535 || g.grid.z > 65535)
    return refuse(fmt::format("a grid of {} x {} x {} blocks; the limits are 2147483647 x 65535 x 65535",
                              g.grid.x, g.grid.y, g.grid.z));
  if (g.shared_bytes > limit)
    return error(cudaErrorInvalidValue,
                 "{} bytes of dynamic shared memory, but this kernel may use {}; ask for more with "
                 "cudaFuncSetAttribute(MaxDynamicSharedMemorySize), up to {} on this device",
                 g.shared_bytes, limit, device().shared_optin());
  if (g.cluster > 1 &&
      (device().major < 9 || g.cluster > 16 || g.grid.x != g.cluster || g.grid.y != 1 || g.grid.z != 1)) {
    return error(cudaErrorNotSupported,
                 "a cluster of {} in a grid of {} x {} x {} blocks, on {}; the executor runs grids "
                 "that are one cluster of at most 16, on compute capability 9.0",
                 g.cluster, g.grid.x, g.grid.y, g.grid.z, device().name);
  }
  return cudaSuccess;
}

cudaError_t check_cooperative(const Grid& g) {
  if (!g.resident()) return cudaSuccess;
  int per_sm = 0;
  max_active_blocks(&per_sm, static_cast<int>(g.threads_of_block()), g.shared_bytes);
  // A cluster needs an SM a block, and the few simulated ones are too few for any: only what a block needs is
  // checked.
  if (!g.cooperative && per_sm > 0) return cudaSuccess;
  const std::uint64_t resident =
      static_cast<std::uint64_t>(per_sm) * static_cast<std::uint64_t>(numbers().device_sms);
  if (g.blocks() <= resident) return cudaSuccess;
  return error(cudaErrorCooperativeLaunchTooLarge,
               "{} blocks, of which only {} can run at once ({} SMs x {})", g.blocks(), resident,
               numbers().device_sms, per_sm);
}

cudaError_t run_now(const Grid& grid) {
  std::string report;
  const Fault fault = run_grid(grid, report);
  const cudaError_t race = end_work();
  if (fault == Fault::device) return error(cudaErrorLaunchFailure, std::move(report));
  if (fault == Fault::late) return error(cudaErrorLaunchTimeout, "it was to end before now");
  if (fault != Fault::none) return error(cudaErrorLaunchTimeout, std::move(report));
  if (race != cudaSuccess) return race;
  if (STAGES_SIMT_ASAN) return cudaSuccess;
  std::string broken = check_canaries();
  return broken.empty() ? cudaSuccess : error(cudaErrorIllegalAddress, std::move(broken));
}

}  // namespace

const std::string& error_detail() { return t_detail; }

cudaError_t error(cudaError_t code, std::string detail) {
  t_last = code;
  t_detail = std::move(detail);
  return code;
}

cudaError_t set_function_attribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;  // hints and permissions
  if (value < 0 || static_cast<std::size_t>(value) > device().shared_optin()) {
    return error(cudaErrorInvalidValue, "{} bytes of dynamic shared memory; this device allows {} at most",
                 value, device().shared_optin());
  }
  const std::lock_guard lock(g_function_mutex);
  dynamic_limits()[kernel] = static_cast<std::size_t>(value);
  return cudaSuccess;
}

// By threads, blocks and dynamic shared memory; registers are unknown, so hardware may hold fewer.
cudaError_t max_active_blocks(int* blocks, int block_size, std::size_t shared_bytes) {
  const Device& d = device();
  if (!blocks || block_size <= 0 || block_size > 1024)
    return error(cudaErrorInvalidValue, "a block of {} threads", block_size);
  const int warps = (block_size + 31) / 32;
  const int by_threads = std::min(d.blocks_per_sm, d.threads_per_sm / 32 / warps);
  const std::size_t by_memory = d.shared_per_sm / std::max<std::size_t>(1, shared_bytes + d.shared_reserved);
  *blocks = shared_bytes > d.shared_optin() ? 0 : std::min(by_threads, static_cast<int>(by_memory));
  return cudaSuccess;
}

cudaError_t submit(Grid grid, cudaStream_t stream) {
  std::size_t dynamic_limit = kSharedDefault;
  {
    const std::lock_guard lock(g_function_mutex);
    const auto asked = dynamic_limits().find(grid.kernel);
    grid.shared_limit = asked != dynamic_limits().end() ? device().shared_optin() : kSharedDefault;
    if (asked != dynamic_limits().end()) dynamic_limit = asked->second;
  }
  if (const auto status = check_shape(grid, dynamic_limit)) return status;
  if (const auto status = check_cooperative(grid)) return status;
  return put(stream, [grid = std::move(grid)] { return run_now(grid); });
}

}  // namespace stages::simt

using namespace stages::simt;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* number) {
  *number = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int number) {
  return number == 0 ? cudaSuccess : error(cudaErrorInvalidDevice, "there is one simulated device, number 0");
}
cudaError_t cudaDeviceSynchronize() {
  observer().order_host_after_all();
  return refuse_in_capture("cudaDeviceSynchronize");
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int number) {
  if (number != 0) return cudaSetDevice(number);
  const Device& d = device();
  *p = {};
  std::snprintf(p->name, sizeof p->name, "simulated %s", d.name);
  p->totalGlobalMem = numbers().device_memory;
  p->sharedMemPerBlock = kSharedDefault;
  p->sharedMemPerBlockOptin = d.shared_optin();
  p->sharedMemPerMultiprocessor = d.shared_per_sm;
  p->regsPerMultiprocessor = 65536;
  p->major = d.major;
  p->minor = d.minor;
  p->multiProcessorCount = numbers().device_sms;
  p->maxThreadsPerMultiProcessor = d.threads_per_sm;
  p->l2CacheSize = numbers().device_l2;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }

cudaError_t cudaGetLastError() {
  t_detail.clear();
  return std::exchange(t_last, cudaSuccess);
}

const char* cudaGetErrorName(cudaError_t error) {
#define STAGES_SIMT_ERROR(CODE, NUMBER, TEXT) \
  if (error == CODE) return #CODE;
  STAGES_SIMT_ERRORS(STAGES_SIMT_ERROR)
#undef STAGES_SIMT_ERROR
  return "unrecognized error";
}
const char* cudaGetErrorString(cudaError_t error) {
#define STAGES_SIMT_ERROR(CODE, NUMBER, TEXT) \
  if (error == CODE) return TEXT;
  STAGES_SIMT_ERRORS(STAGES_SIMT_ERROR)
#undef STAGES_SIMT_ERROR
  return "unrecognized error code";
}
