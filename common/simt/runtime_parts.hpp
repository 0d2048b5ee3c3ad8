#pragma once
// What the files of the runtime have of each other.

#include <functional>
#include <string>
#include <utility>

#include "common/matrix/error.hpp"
#include "common/simt/observer.hpp"
#include "common/simt/runtime.hpp"

namespace stages::simt {

/// Remembers the error, and returns it.
cudaError_t error(cudaError_t code, std::string detail);
template <class... Args>
cudaError_t error(cudaError_t code, fmt::format_string<Args...> detail, Args&&... args) {
  return error(code, fmt::format(detail, std::forward<Args>(args)...));
}

/// Empty, or what is wrong with memory after a kernel.
std::string check_canaries();

/// An error while this OS thread captures a stream.
cudaError_t refuse_in_capture(const char* call);
/// An error where that stream is captured, or is not there; the default one always is.
cudaError_t refuse_on_captured(cudaStream_t stream, const char* call);
/// Does `work` now, or keeps it if the stream is captured.
cudaError_t put(cudaStream_t stream, std::function<cudaError_t()> work);
/// Of a launch or a copy: what the observer finds is a fault, too.
cudaError_t end_work();

}  // namespace stages::simt
