#include "common/gpu/check.hpp"

#include <cstdio>
#include <string>

namespace stages {
namespace {

// The executor's explanation of the last error; NVIDIA's runtime has none.
std::string explanation() {
#if STAGES_SIMULATED
  return simt::error_detail().empty() ? "" : ": " + simt::error_detail();
#else
  return "";
#endif
}

std::string describe(cudaError_t status, const char* call, std::source_location where) {
  return fmt::format("{}:{}: {} failed with {} ({}){}", where.file_name(), where.line(), call,
                     cudaGetErrorName(status), cudaGetErrorString(status), explanation());
}

}  // namespace

void check_cuda(cudaError_t status, const char* call, std::source_location where) {
  if (status == cudaSuccess) return;
  const std::string message = describe(status, call, where);
  static_cast<void>(cudaGetLastError());  // the exception carries it from here on
  if (status == cudaErrorMemoryAllocation) throw OutOfDeviceMemory(message);
  throw Error(message);
}

void warn_cuda(cudaError_t status, const char* call, std::source_location where) noexcept {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", describe(status, call, where).c_str());
  static_cast<void>(cudaGetLastError());
}

}  // namespace stages
