#include "common/simt/runtime.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "common/matrix/error.hpp"
#include "common/simt/lens/counting.hpp"
#include "common/simt/lens/races.hpp"
#include "common/simt/numbers.hpp"
#include "common/simt/sanitizer.hpp"
#include "common/simt/shared_memory.hpp"

using stages::simt::fill_junk;

// ---- handles ----------------------------------------------------------------------------------------------

struct CUgraph_st {
  std::vector<std::function<cudaError_t()>> work;
};
struct CUgraphExec_st {
  CUgraph_st graph;
};
struct CUstream_st {
  CUgraph_st* capturing = nullptr;  ///< the graph that this stream's work goes into
  bool began = false;               ///< the capture began here, and did not only spread here
  bool blocking = true;             ///< comes after the default stream's work, and that after this one's
};
struct CUevent_st {
  bool recorded = false, timed = true;
  CUgraph_st* captured_in = nullptr;
};

namespace stages::simt {
namespace {

// ---- errors -----------------------------------------------------------------------------------------------

thread_local cudaError_t t_last = cudaSuccess;
thread_local std::string t_detail;

cudaError_t error(cudaError_t code, std::string detail) {
  t_last = code;
  t_detail = std::move(detail);
  return code;
}
template <class... Args>
cudaError_t error(cudaError_t code, fmt::format_string<Args...> detail, Args&&... args) {
  return error(code, fmt::format(detail, std::forward<Args>(args)...));
}

// ---- the device -------------------------------------------------------------------------------------------

constexpr std::size_t kSharedDefault = 48 * 1024;
constexpr std::size_t kRegistersPerSm = 65536;

/// What devices of one compute capability have in common; the numbers are the CUDA C++ Programming Guide's.
/// A block may have as much shared memory as an SM, less what each block has of it for the system.
struct Profile {
  const char* name;
  int major, minor;
  std::size_t shared_per_sm;
  std::size_t shared_reserved;  ///< of each block
  int threads_per_sm, blocks_per_sm;
};
constexpr std::array kProfiles = {
    Profile{"sm_75", 7, 5, 64 * 1024, 0, 1024, 16},      // T4, RTX 20
    Profile{"sm_80", 8, 0, 164 * 1024, 1024, 2048, 32},  // A100
    Profile{"sm_86", 8, 6, 100 * 1024, 1024, 1536, 16},  // RTX 30; RTX 40 and 50 have the same memory
    Profile{"sm_90", 9, 0, 228 * 1024, 1024, 2048, 32},  // H100, H200
};

const Profile& profile() {
  static const Profile* const chosen = [] {
    const char* const name = std::getenv("STAGES_DEVICE");
    if (name == nullptr || *name == '\0') return &kProfiles.back();
    std::string names;
    for (const Profile& p : kProfiles) {
      if (std::strcmp(name, p.name) == 0) return &p;
      names += names.empty() ? p.name : fmt::format(", {}", p.name);
    }
    fail("STAGES_DEVICE is '{}'; the executor knows {}", name, names);
  }();
  return *chosen;
}

struct Device : Profile {
  std::size_t memory = simt::numbers().device_memory;
  int sms = simt::numbers().device_sms;
  int l2 = simt::numbers().device_l2;
  std::size_t shared_optin = shared_per_sm - shared_reserved;
};

const Device& device() {
  static const Device instance{profile()};
  return instance;
}

// ---- memory -----------------------------------------------------------------------------------------------

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
    std::uint64_t grave = 0;  ///< once freed: its number among graves_
  };

  cudaError_t allocate(void** p, std::size_t bytes, Kind kind) {
    if (!p) return error(cudaErrorInvalidValue, "the pointer to the new pointer is null");
    *p = nullptr;
    if (bytes == 0) return cudaSuccess;
    const std::lock_guard lock(mutex_);
    if (kind == Kind::device && bytes > device().memory - used_)
      return error(cudaErrorMemoryAllocation,
                   "{} bytes asked for, {} of {} free on the simulated device; take a smaller matrix or set "
                   "STAGES_DEVICE_MEMORY (MiB)",
                   bytes, device().memory - used_, device().memory);
    void* memory = nullptr;
    if (posix_memalign(&memory, 256, bytes + kCanaryBytes) != 0)
      return error(cudaErrorMemoryAllocation, "the host has no {} bytes", bytes);
    forget_freed_at(reinterpret_cast<std::uintptr_t>(memory), bytes + kCanaryBytes);
    fill_junk(memory, bytes);
    lay_canary(static_cast<std::byte*>(memory) + bytes);
    allocations_[reinterpret_cast<std::uintptr_t>(memory)] = {bytes, kind,
                                                              reinterpret_cast<std::uintptr_t>(memory)};
    forget_memory(memory, bytes);
    if (kind == Kind::device) {
      used_ += bytes;
      on_device_.insert(reinterpret_cast<std::uintptr_t>(memory));
    }
    *p = memory;
    return cudaSuccess;
  }

  cudaError_t release(void* p, Kind kind) {
    if (!p) return cudaSuccess;
    const std::lock_guard lock(mutex_);
    const auto at = allocations_.find(reinterpret_cast<std::uintptr_t>(p));
    if (at == allocations_.end() || at->second.kind != kind) {
      const bool twice = at != allocations_.end() && at->second.kind == Kind::freed;
      return error(cudaErrorInvalidValue, "{} is {}", p,
                   twice ? "already freed" : "not the start of an allocation of this kind");
    }
    const std::size_t bytes = at->second.bytes;
    const bool broken = canary_broken(static_cast<std::byte*>(p) + bytes);
    if (kind == Kind::device) {
      used_ -= bytes;
      on_device_.erase(at->first);
    }
    at->second.kind = Kind::freed;
    at->second.grave = ++last_grave_;
    forget_memory(p, bytes);
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

  /// Empty, or what is wrong with memory after a kernel.
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
    graves_.emplace_back(reinterpret_cast<std::uintptr_t>(p), last_grave_);
    buried_ += bytes;
#if STAGES_SIMT_ASAN
    std::free(p);  // ASan has a quarantine of its own, and knows the line
#else
    fill_junk(p, bytes + kCanaryBytes);
#endif
    while (buried_ > kQuarantineBytes && graves_.size() > 1) {
      const auto [address, grave] = graves_.front();
      graves_.pop_front();
      const auto old = allocations_.find(address);
      if (old == allocations_.end() || old->second.grave != grave) continue;  // forgotten meanwhile
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
      at = allocations_.erase(at);
    }
  }

  std::mutex mutex_;
  std::map<std::uintptr_t, Allocation> allocations_;
  std::set<std::uintptr_t> on_device_;  ///< those of allocations_ that a kernel may write to
  std::deque<std::pair<std::uintptr_t, std::uint64_t>> graves_;
  std::uint64_t last_grave_ = 0;
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

bool is_device(const void* p) {
  const auto found = memory().find(p);
  return found && found->kind == Kind::device;
}

cudaError_t check_copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
    return error(cudaErrorInvalidMemcpyDirection, "no such direction");
  if (bytes == 0) return cudaSuccess;
  const bool to_device = kind == cudaMemcpyDefault
                             ? is_device(to)
                             : kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDefault
                               ? is_device(from)
                               : kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (const auto status = check_side(to, bytes, to_device, "destination")) return status;
  return check_side(from, bytes, from_device, "source");
}

// ---- streams ----------------------------------------------------------------------------------------------

/// Live handles of all kinds, so that a stale one is an error and not a crash.
template <class Handle>
class Handles {
 public:
  using Object = std::remove_pointer_t<Handle>;
  Handle make() {
    const std::lock_guard lock(mutex_);
    auto object = std::make_unique<Object>();
    const Handle handle = object.get();
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  bool contains(Handle handle) {
    const std::lock_guard lock(mutex_);
    return objects_.contains(handle);
  }
  /// No other object gets the handle if it is `kept`.
  bool destroy(Handle handle, bool kept) {
    const std::lock_guard lock(mutex_);
    auto object = objects_.extract(handle);
    if (kept && object) kept_.push_back(std::move(object.mapped()));
    return !object.empty();
  }
  template <class Visit>
  void each(Visit visit) {
    const std::lock_guard lock(mutex_);
    for (auto& entry : objects_) visit(*entry.second);
    for (auto& object : kept_) visit(*object);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<Handle, std::unique_ptr<Object>> objects_;
  std::vector<std::unique_ptr<Object>> kept_;
};

template <class Handle>
Handles<Handle>& handles() {
  static Handles<Handle> instance;
  return instance;
}

/// cudaSuccess where the handle stands for something.
template <class Handle>
cudaError_t stale_unless(bool exists) {
  constexpr const char* kWhat = std::is_same_v<Handle, cudaStream_t>  ? "stream"
                                : std::is_same_v<Handle, cudaEvent_t> ? "event"
                                                                      : "graph";
  if (exists) return cudaSuccess;
  return error(cudaErrorInvalidResourceHandle, "the {} does not exist (any more)", kWhat);
}
template <class Handle>
cudaError_t check_handle(Handle handle) {
  const bool is_default = std::is_same_v<Handle, cudaStream_t> && handle == nullptr;
  return stale_unless<Handle>(is_default || handles<Handle>().contains(handle));
}
template <class Handle>
cudaError_t destroy(Handle handle, bool kept = false) {
  return stale_unless<Handle>(handles<Handle>().destroy(handle, kept));
}

/// The stream that began a capture on this OS thread; blocking calls are errors until it ends.
thread_local cudaStream_t t_capture = nullptr;

cudaError_t refuse_in_capture(const char* call) {
  if (!t_capture) return cudaSuccess;
  return error(cudaErrorStreamCaptureUnsupported,
               "{} while a stream is being captured; move it out of the captured work", call);
}

/// What the search for races knows of the order of streams, where work on this one begins.
void order_work(cudaStream_t stream) {
  if (!races()) return;
  order_stream_after_host(stream);
  if (stream) {
    if (stream->blocking) order_stream_after_stream(stream, nullptr);
  } else {
    handles<cudaStream_t>().each([](CUstream_st& s) {
      if (s.blocking) order_stream_after_stream(nullptr, &s);
    });
  }
  begin_work(stream);
}

/// Does `work` now, or keeps it if the stream is captured.
cudaError_t put(cudaStream_t stream, std::function<cudaError_t()> work) {
  if (is_capturing(stream)) {
    stream->capturing->work.push_back(std::move(work));
    return cudaSuccess;
  }
  if (const auto status = check_handle(stream)) return status;
  if (!stream) {
    if (const auto status = refuse_in_capture("work on the default stream")) return status;
  }
  order_work(stream);
  return work();
}

// ---- launches ---------------------------------------------------------------------------------------------

std::mutex g_function_mutex;
std::unordered_map<const void*, std::size_t>& dynamic_limits() {
  static std::unordered_map<const void*, std::size_t> instance;
  return instance;
}

std::size_t dynamic_limit(const void* kernel) {
  const std::lock_guard lock(g_function_mutex);
  const auto found = dynamic_limits().find(kernel);
  return found == dynamic_limits().end() ? kSharedDefault : found->second;
}

/// Of static and dynamic shared memory together: what every block may have, or what cudaFuncSetAttribute can
/// ask for if it was called.
std::size_t shared_limit(const void* kernel) {
  const std::lock_guard lock(g_function_mutex);
  return dynamic_limits().contains(kernel) ? device().shared_optin : kSharedDefault;
}

cudaError_t check_shape(const Grid& g) {
  const auto refuse = [](std::string detail) {
    return error(cudaErrorInvalidConfiguration, std::move(detail));
  };
  const std::uint64_t threads = std::uint64_t{g.block.x} * g.block.y * g.block.z;
  if (threads == 0) return refuse("the block is empty");
  if (threads > 1024 || g.block.z > 64)
    return refuse(fmt::format("a block of {} x {} x {} threads; the limits are 1024 threads, and 64 in z",
                              g.block.x, g.block.y, g.block.z));
  if (g.grid.x == 0 || g.grid.y == 0 || g.grid.z == 0) return refuse("the grid is empty");
  if (g.grid.x > 0x7fffffffu || g.grid.y > 65535 || g.grid.z > 65535)
    return refuse(fmt::format("a grid of {} x {} x {} blocks; the limits are 2147483647 x 65535 x 65535",
                              g.grid.x, g.grid.y, g.grid.z));
  const std::size_t limit = dynamic_limit(g.kernel);
  if (g.shared_bytes > limit)
    return error(cudaErrorInvalidValue,
                 "{} bytes of dynamic shared memory, but this kernel may use {}; ask for more with "
                 "cudaFuncSetAttribute(MaxDynamicSharedMemorySize), up to {} on this device",
                 g.shared_bytes, limit, device().shared_optin);
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
  max_active_blocks(&per_sm, static_cast<int>(g.block.x * g.block.y * g.block.z), g.shared_bytes);
  // A cluster needs an SM a block, and the few simulated ones are too few for any: only what a block needs is
  // checked.
  if (!g.cooperative && per_sm > 0) return cudaSuccess;
  const std::uint64_t blocks = std::uint64_t{g.grid.x} * g.grid.y * g.grid.z;
  const std::uint64_t resident =
      static_cast<std::uint64_t>(per_sm) * static_cast<std::uint64_t>(device().sms);
  if (blocks <= resident) return cudaSuccess;
  return error(cudaErrorCooperativeLaunchTooLarge,
               "{} blocks, of which only {} can run at once ({} SMs x {})", blocks, resident, device().sms,
               per_sm);
}

/// Of a launch or a copy: a race with it is a fault, too.
cudaError_t after_work() {
  std::string race = races_of_launch();
  return race.empty() ? cudaSuccess : error(cudaErrorLaunchFailure, std::move(race));
}

cudaError_t run_now(const Grid& grid) {
  std::string report;
  const Fault fault = run_grid(grid, report);
  const cudaError_t race = after_work();
  if (fault == Fault::device) return error(cudaErrorLaunchFailure, std::move(report));
  if (fault == Fault::late) return error(cudaErrorLaunchTimeout, "it was to end before now");
  if (fault != Fault::none) return error(cudaErrorLaunchTimeout, std::move(report));
  if (race != cudaSuccess) return race;
  if (STAGES_SIMT_ASAN) return cudaSuccess;
  std::string broken = memory().check_canaries();
  return broken.empty() ? cudaSuccess : error(cudaErrorIllegalAddress, std::move(broken));
}

}  // namespace

std::vector<Span> global_memory() { return memory().spans(); }

const std::string& error_detail() { return t_detail; }

int compute_capability() { return device().major * 10 + device().minor; }

void require_capability(int needed, const char* what, Where at) {
  if (compute_capability() >= needed) return;
  device_fault(fmt::format("{} needs compute capability {}.{}; this device has {}.{}", what, needed / 10,
                           needed % 10, device().major, device().minor),
               at);
}

cudaError_t set_function_attribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;  // hints and permissions
  if (value < 0 || static_cast<std::size_t>(value) > device().shared_optin) {
    return error(cudaErrorInvalidValue, "{} bytes of dynamic shared memory; this device allows {} at most",
                 value, device().shared_optin);
  }
  const std::lock_guard lock(g_function_mutex);
  dynamic_limits()[kernel] = static_cast<std::size_t>(value);
  return cudaSuccess;
}

cudaError_t get_function_attributes(cudaFuncAttributes* attributes, const void* kernel) {
  if (!attributes || !kernel) return error(cudaErrorInvalidValue, "a null argument");
  constexpr std::size_t kUnknown = ~std::size_t{0};
  const int capability = compute_capability();
  *attributes = {kUnknown, kUnknown,   kUnknown,   1024,
                 -1,       capability, capability, static_cast<int>(dynamic_limit(kernel))};
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
  *blocks = shared_bytes > d.shared_optin ? 0 : std::min(by_threads, static_cast<int>(by_memory));
  return cudaSuccess;
}

cudaError_t check_argument_pointer(const void* p, int argument) {
  if (!p) return cudaSuccess;
  const auto found = memory().find(p);
  if (found && found->kind != Kind::freed) return cudaSuccess;
  return error(cudaErrorIllegalAddress, "argument {} of the kernel points to {}; pass device memory",
               argument, found ? "freed device memory" : "host memory");
}

bool is_capturing(cudaStream_t stream) {
  return stream && handles<cudaStream_t>().contains(stream) && stream->capturing;
}

cudaError_t submit(Launch launch, cudaStream_t stream) {
  launch.grid.shared_limit = shared_limit(launch.grid.kernel);
  if (const auto status = check_shape(launch.grid)) return status;
  if (const auto status = check_cooperative(launch.grid)) return status;
  return put(stream, [launch = std::move(launch)] { return run_now(launch.grid); });
}

cudaError_t submit_work(cudaStream_t stream, std::function<void()> work) {
  return put(stream, [work = std::move(work)] {
    work();
    return cudaSuccess;
  });
}

}  // namespace stages::simt

using namespace stages::simt;

// ---- memory -----------------------------------------------------------------------------------------------

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  if (const auto status = refuse_in_capture("cudaMalloc")) return status;
  return memory().allocate(p, bytes, Kind::device);
}
cudaError_t cudaFree(void* p) {
  order_host_after_all();
  if (const auto status = refuse_in_capture("cudaFree")) return status;
  return memory().release(p, Kind::device);
}
cudaError_t cudaMallocAsync(void** p, std::size_t bytes, cudaStream_t stream) {
  if (const auto status = check_handle(stream)) return status;
  if (is_capturing(stream)) return refuse_in_capture("cudaMallocAsync");
  return memory().allocate(p, bytes, Kind::device);
}
cudaError_t cudaFreeAsync(void* p, cudaStream_t stream) {
  if (const auto status = check_handle(stream)) return status;
  if (is_capturing(stream)) return refuse_in_capture("cudaFreeAsync");
  return memory().release(p, Kind::device);
}
cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) {
  return memory().allocate(p, bytes, Kind::pinned);
}
cudaError_t cudaFreeHost(void* p) { return memory().release(p, Kind::pinned); }

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (const auto status = refuse_in_capture("cudaMemcpy")) return status;
  if (const auto status = cudaMemcpyAsync(to, from, bytes, kind, nullptr)) return status;
  order_host_after_stream(nullptr);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return put(stream, [=] {
    const cudaError_t status = check_copy(to, from, bytes, kind);
    if (status != cudaSuccess || bytes == 0) return status;
    note_copy(memory().find(to) ? to : nullptr, memory().find(from) ? from : nullptr, bytes);
    std::memmove(to, from, bytes);
    // Into memory that is not pinned the call returns when it is done.
    if (is_device(from) && !memory().find(to)) order_host_after_stream(stream);
    return after_work();
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
    note_copy(p, nullptr, bytes);
    std::memset(p, byte, bytes);
    return after_work();
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  *total_bytes = device().memory;
  *free_bytes = device().memory - memory().used();
  return cudaSuccess;
}

// ---- streams, events, graphs ------------------------------------------------------------------------------

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  *stream = handles<cudaStream_t>().make();
  (*stream)->blocking = flags != cudaStreamNonBlocking;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream && stream == t_capture) t_capture = nullptr;
  return destroy(stream, !forget_stream(stream));
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const auto status = check_handle(stream)) return status;
  order_host_after_stream(stream);
  return refuse_in_capture("cudaStreamSynchronize");
}

// Work that waits for an event of a capture belongs to that capture.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (const auto status = check_handle(event)) return status;
  if (const auto status = check_handle(stream)) return status;
  if (stream && event->captured_in) stream->capturing = event->captured_in;
  order_stream_after_event(stream, event);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (!stream || check_handle(stream) != cudaSuccess)
    return error(cudaErrorStreamCaptureUnsupported, "the default stream cannot be captured; make a stream");
  if (stream->capturing || t_capture) return error(cudaErrorIllegalState, "a capture is in progress already");
  stream->capturing = handles<cudaGraph_t>().make();
  stream->began = true;
  t_capture = stream;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (!is_capturing(stream) || !stream->began)
    return error(cudaErrorIllegalState, "no capture began on this stream");
  *graph = stream->capturing;
  t_capture = nullptr;
  handles<cudaStream_t>().each([&](CUstream_st& s) {
    if (s.capturing == *graph) s = {};
  });
  handles<cudaEvent_t>().each([&](CUevent_st& e) {
    if (e.captured_in == *graph) e.captured_in = nullptr;
  });
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  if (const auto status = check_handle(graph)) return status;
  *exec = handles<cudaGraphExec_t>().make();
  (*exec)->graph = *graph;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (const auto status = check_handle(exec)) return status;
  if (is_capturing(stream))
    return error(cudaErrorStreamCaptureUnsupported, "cudaGraphLaunch on a stream that is captured");
  return put(stream, [graph = exec->graph] {
    for (const auto& work : graph.work)
      if (const auto status = work()) return status;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return destroy(graph); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return destroy(exec); }

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = handles<cudaEvent_t>().make();
  (*event)->timed = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  forget_event(event);
  return destroy(event);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (const auto status = check_handle(event)) return status;
  if (const auto status = check_handle(stream)) return status;
  event->captured_in = stream ? stream->capturing : nullptr;
  event->recorded = true;
  order_event_after_stream(event, stream);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const auto status = check_handle(event)) return status;
  order_host_after_event(event);
  return refuse_in_capture("cudaEventSynchronize");
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop) {
  for (const cudaEvent_t event : {start, stop})
    if (const auto status = check_handle(event)) return status;
  if (!start->recorded || !stop->recorded || !start->timed || !stop->timed)
    return error(cudaErrorInvalidResourceHandle, "both events must be recorded, and made with timing");
  *milliseconds = std::numeric_limits<float>::quiet_NaN();
  return cudaSuccess;
}

// ---- device, errors ---------------------------------------------------------------------------------------

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
  order_host_after_all();
  return refuse_in_capture("cudaDeviceSynchronize");
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int number) {
  if (number != 0) return cudaSetDevice(number);
  const Device& d = device();
  *p = {};
  std::snprintf(p->name, sizeof p->name, "simulated %s", d.name);
  p->totalGlobalMem = d.memory;
  p->sharedMemPerBlock = kSharedDefault;
  p->sharedMemPerBlockOptin = d.shared_optin;
  p->sharedMemPerMultiprocessor = d.shared_per_sm;
  p->reservedSharedMemPerBlock = d.shared_reserved;
  p->regsPerBlock = p->regsPerMultiprocessor = static_cast<int>(kRegistersPerSm);
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  std::copy_n(std::array{1024, 1024, 64}.data(), 3, p->maxThreadsDim);
  std::copy_n(std::array{0x7fffffff, 65535, 65535}.data(), 3, p->maxGridSize);
  p->major = d.major;
  p->minor = d.minor;
  p->multiProcessorCount = d.sms;
  p->maxThreadsPerMultiProcessor = d.threads_per_sm;
  p->maxBlocksPerMultiProcessor = d.blocks_per_sm;
  p->l2CacheSize = d.l2;
  p->cooperativeLaunch = 1;
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
cudaError_t cudaPeekAtLastError() { return t_last; }

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
