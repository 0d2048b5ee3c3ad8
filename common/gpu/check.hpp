#pragma once
// Checked CUDA calls: no status is ever dropped. STAGES_CUDA(call) throws Error with the place, the call as
// written and what CUDA says of it; on the executor also the executor's own explanation.

#include <memory>
#include <source_location>

#include "common/gpu/backend.hpp"
#include "common/matrix/error.hpp"

namespace stages {

/// Not enough device memory: a plan can be skipped with this reason, unlike after other CUDA errors.
struct OutOfDeviceMemory : OutOfMemory {
  using OutOfMemory::OutOfMemory;
};

/// Throws Error (OutOfDeviceMemory for cudaErrorMemoryAllocation) unless `status` is cudaSuccess.
void check_cuda(cudaError_t status, const char* call,
                std::source_location where = std::source_location::current());

/// Prints the same message on stderr instead: for destructors, which must not throw.
void warn_cuda(cudaError_t status, const char* call,
               std::source_location where = std::source_location::current()) noexcept;

namespace detail {
/// What CUDA made, owned by the type that everyone knows, and given back by CUDA's `kGiveBack`.
template <auto kGiveBack>
struct GiveBack {
  template <class T>
  void operator()(T* p) const noexcept {
    warn_cuda(kGiveBack(p), __PRETTY_FUNCTION__);
  }
};
template <class T, auto kGiveBack>
using Owned = std::unique_ptr<T, GiveBack<kGiveBack>>;
}  // namespace detail

}  // namespace stages

#define STAGES_CUDA(call) ::stages::check_cuda((call), #call)
