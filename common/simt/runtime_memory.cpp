#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "common/simt/numbers.hpp"
#include "common/simt/runtime_parts.hpp"
#include "common/simt/sanitizer.hpp"
#include "common/simt/shared_memory.hpp"

namespace stages::simt {
namespace {

constexpr std::size_t kQuarantineBytes = std::size_t{64} << 20;

enum class Kind : std::uint8_t { device, pinned, freed };

/// Every allocation of the runtime, by address. Freed ones stay on record (without ASan also in memory, full
/// of junk) until 64 MiB of them have come together.
class Memory {
 public:
  struct Allocation {
    std::size_t bytes;
    Kind kind;
    std::uintptr_t begin;
  };

  cudaError_t allocate(void** p, std::size_t bytes, Kind kind) {
    if (!p) return error(cudaErrorInvalidValue, "the pointer to the new pointer is null");
    *p = nullptr;
    if (bytes == 0) return cudaSuccess;
    const std::lock_guard lock(mutex_);
    if (kind == Kind::device && bytes > numbers().device_memory - used_)
      return error(cudaErrorMemoryAllocation,
                   "{} bytes asked for, {} of {} free on the simulated device; take a smaller matrix or set "
                   "STAGES_DEVICE_MEMORY (MiB)",
                   bytes, numbers().device_memory - used_, numbers().device_memory);
    void* memory = nullptr;
    if (posix_memalign(&memory, 256, bytes + kCanaryBytes) != 0)
      return error(cudaErrorMemoryAllocation, "the host has no {} bytes", bytes);
    const auto begin = reinterpret_cast<std::uintptr_t>(memory);
    forget_freed_at(begin, bytes + kCanaryBytes);
    fill_junk(memory, bytes);
    lay_canary(static_cast<std::byte*>(memory) + bytes);
    allocations_[begin] = {bytes, kind, begin};
    observer().forget_memory({begin, bytes});
    if (kind == Kind::device) {
      used_ += bytes;
      on_device_.insert(begin);
    }
    *p = memory;
    return cudaSuccess;
  }

  cudaError_t release(void* p, Kind kind) {
    if (!p) return cudaSuccess;
    const std::lock_guard lock(mutex_);
    const auto begin = reinterpret_cast<std::uintptr_t>(p);
    const auto at = allocations_.find(begin);
    if (at == allocations_.end() || at->second.kind != kind) {
      const bool twice = at != allocations_.end() && at->second.kind == Kind::freed;
      return error(cudaErrorInvalidValue, "{} is {}", p,
                   twice ? "already freed" : "not the start of an allocation of this kind");
    }
    const std::size_t bytes = at->second.bytes;
    const bool broken = canary_broken(static_cast<std::byte*>(p) + bytes);
    if (kind == Kind::device) {
      used_ -= bytes;
      on_device_.erase(begin);
    }
    at->second.kind = Kind::freed;
    observer().forget_memory({begin, bytes});
    bury(p, bytes);
    if (broken) return error(cudaErrorIllegalAddress, overrun(bytes));
    return cudaSuccess;
  }

  /// The allocation that holds p, or ends at it.
  std::optional<Allocation> find(const void* p) {
    const std::lock_guard lock(mutex_);
    const auto address = reinterpret_cast<std::uintptr_t>(p);
    auto after = allocations_.upper_bound(address);
    if (after == allocations_.begin()) return std::nullopt;
    const Allocation& before = (--after)->second;
    if (address - before.begin > before.bytes) return std::nullopt;
    return before;
  }

  /// What kernels may touch, by address.
  std::vector<Span> spans() {
    const std::lock_guard lock(mutex_);
    std::vector<Span> found;
    for (const auto& [begin, allocation] : allocations_)
      if (allocation.kind != Kind::freed) found.push_back({begin, allocation.bytes});
    return found;
  }

  std::string check_canaries() {
    if (kCanaryBytes == 0) return "";
    const std::lock_guard lock(mutex_);
    for (const std::uintptr_t begin : on_device_) {
      const std::size_t bytes = allocations_.at(begin).bytes;
      if (canary_broken(reinterpret_cast<const std::byte*>(begin) + bytes)) return overrun(bytes);
    }
    return "";
  }

  std::size_t used() {
    const std::lock_guard lock(mutex_);
    return used_;
  }

 private:
  static std::string overrun(std::size_t bytes) {
    return fmt::format(
        "something was written just beyond the {} bytes of a device array; build with ASan to see the line",
        bytes);
  }

  void bury(void* p, std::size_t bytes) {
    graves_.push_back(reinterpret_cast<std::uintptr_t>(p));
    buried_ += bytes;
#if STAGES_SIMT_ASAN
    std::free(p);  // ASan has a quarantine of its own, and knows the line
#else
    fill_junk(p, bytes + kCanaryBytes);
#endif
    while (buried_ > kQuarantineBytes && graves_.size() > 1) {
      const auto old = allocations_.find(graves_.front());
      graves_.pop_front();
      buried_ -= old->second.bytes;
#if !STAGES_SIMT_ASAN
      std::free(reinterpret_cast<void*>(old->first));
#endif
      allocations_.erase(old);
    }
  }

  // Under ASan memory of a freed allocation may be handed out again while it is still on record.
  void forget_freed_at(std::uintptr_t begin, std::size_t bytes) {
    auto at = allocations_.lower_bound(begin);
    if (at != allocations_.begin() && std::prev(at)->first + std::prev(at)->second.bytes > begin) --at;
    while (at != allocations_.end() && at->first < begin + bytes) {
      buried_ -= at->second.bytes;
      std::erase(graves_, at->first);
      at = allocations_.erase(at);
    }
  }

  std::mutex mutex_;
  std::map<std::uintptr_t, Allocation> allocations_;
  std::set<std::uintptr_t> on_device_;  ///< those of allocations_ that a kernel may write to
  std::deque<std::uintptr_t> graves_;   ///< the freed ones, the first one first
  std::size_t used_ = 0, buried_ = 0;
};

Memory& memory() {
  static Memory instance;
  return instance;
}

// Is [p, p + bytes) fit to be the device (or the host) side of a copy?
cudaError_t check_side(const void* p, std::size_t bytes, bool device_side, const char* role) {
  const auto found = memory().find(p);
  const bool freed = found && found->kind == Kind::freed;
  if (!device_side) {
    if (!found || found->kind == Kind::pinned) return cudaSuccess;
    // A host allocation may begin where a freed device array ended.
    if (reinterpret_cast<std::uintptr_t>(p) == found->begin + found->bytes) return cudaSuccess;
    if (freed && STAGES_SIMT_ASAN)
      return cudaSuccess;  // ASan hands freed memory out again, and watches it itself
    return error(cudaErrorInvalidValue, "the {} is {}device memory where host memory is expected", role,
                 freed ? "freed " : "");
  }
  if (!found || found->kind != Kind::device)
    return error(cudaErrorInvalidValue, "the {} is {} where device memory is expected", role,
                 freed ? "freed device memory" : "host memory");
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(p) - found->begin;
  if (bytes > found->bytes - offset)
    return error(cudaErrorInvalidValue, "{} bytes from the {} on, of which the device array holds only {}",
                 bytes, role, found->bytes - offset);
  return cudaSuccess;
}

cudaError_t check_copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (kind < cudaMemcpyHostToDevice || kind > cudaMemcpyDeviceToDevice)
    return error(cudaErrorInvalidMemcpyDirection, "no such direction");
  if (bytes == 0) return cudaSuccess;
  if (const auto status = check_side(to, bytes, kind != cudaMemcpyDeviceToHost, "destination")) return status;
  return check_side(from, bytes, kind != cudaMemcpyHostToDevice, "source");
}

}  // namespace

std::vector<Span> global_memory() { return memory().spans(); }

std::string check_canaries() { return memory().check_canaries(); }

cudaError_t check_argument_pointer(const void* p, int argument) {
  if (!p) return cudaSuccess;
  const auto found = memory().find(p);
  if (found && found->kind != Kind::freed) return cudaSuccess;
  return error(cudaErrorIllegalAddress, "argument {} of the kernel points to {}; pass device memory",
               argument, found ? "freed device memory" : "host memory");
}

}  // namespace stages::simt

using namespace stages::simt;

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  if (const auto status = refuse_in_capture("cudaMalloc")) return status;
  return memory().allocate(p, bytes, Kind::device);
}
cudaError_t cudaFree(void* p) {
  observer().order_host_after_all();
  if (const auto status = refuse_in_capture("cudaFree")) return status;
  return memory().release(p, Kind::device);
}
cudaError_t cudaMallocAsync(void** p, std::size_t bytes, cudaStream_t stream) {
  if (const auto status = refuse_on_captured(stream, "cudaMallocAsync")) return status;
  return memory().allocate(p, bytes, Kind::device);
}
cudaError_t cudaFreeAsync(void* p, cudaStream_t stream) {
  if (const auto status = refuse_on_captured(stream, "cudaFreeAsync")) return status;
  return memory().release(p, Kind::device);
}
cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) {
  return memory().allocate(p, bytes, Kind::pinned);
}
cudaError_t cudaFreeHost(void* p) { return memory().release(p, Kind::pinned); }

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (const auto status = refuse_in_capture("cudaMemcpy")) return status;
  if (const auto status = cudaMemcpyAsync(to, from, bytes, kind, nullptr)) return status;
  observer().order(&Observer::kHost, nullptr);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return put(stream, [=] {
    const cudaError_t status = check_copy(to, from, bytes, kind);
    if (status != cudaSuccess || bytes == 0) return status;
    const bool from_ours = memory().find(from).has_value(), to_ours = memory().find(to).has_value();
    observer().copy(to_ours ? to : nullptr, from_ours ? from : nullptr, bytes);
    std::memmove(to, from, bytes);
    // Into memory that is not pinned the call returns when it is done.
    if (kind == cudaMemcpyDeviceToHost && !to_ours) observer().order(&Observer::kHost, stream);
    return end_work();
  });
}

cudaError_t cudaMemset(void* p, int byte, std::size_t bytes) {
  if (const auto status = refuse_in_capture("cudaMemset")) return status;
  return cudaMemsetAsync(p, byte, bytes, nullptr);
}

cudaError_t cudaMemsetAsync(void* p, int byte, std::size_t bytes, cudaStream_t stream) {
  return put(stream, [=] {
    if (bytes == 0) return cudaSuccess;
    if (const auto status = check_side(p, bytes, true, "destination")) return status;
    observer().copy(p, nullptr, bytes);
    std::memset(p, byte, bytes);
    return end_work();
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  *total_bytes = numbers().device_memory;
  *free_bytes = numbers().device_memory - memory().used();
  return cudaSuccess;
}
