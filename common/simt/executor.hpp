#pragma once
// The executor: what device code and the runtime call to run a grid of CUDA threads on CPU cores. How it works,
// what it finds and how faults are reported is told in docs/executor.md.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <source_location>
#include <string>

#include "common/simt/vector_types.hpp"

namespace stages::simt {

/// Where in the source a thread waits; every waiting device function takes one as its defaulted last
/// argument.
using Where = std::source_location;

/// The 32-bit word that uninitialised and freed device memory is filled with: a NaN as float and (twice) as
/// double, and as int an index of two thousand million, so that its use shows.
inline constexpr std::uint32_t kJunk = 0x7FFADBADu;

/// A piece of memory.
struct Span {
  std::uint64_t begin = 0, bytes = 0;
  bool holds(std::uint64_t address) const { return address - begin < bytes; }
};

/// Fills `bytes` bytes with kJunk, the last word cut off where it does not fit.
void fill_junk(void* memory, std::size_t bytes);

// ---- device side: what the device functions of device.hpp are made of -------------------------------------

/// State of the OS thread that runs a block. Everything here starts at non-zero values on purpose: it then
/// lies in .tdata, while the `__shared__` arrays of the kernels lie in .tbss, which is refilled with junk.
struct ThreadLocal {
  class BlockRunner* runner;      ///< null outside a kernel
  unsigned atomics_since_switch;  ///< see note_atomic
  bool tracing;                   ///< what the kernel does to memory is noted (lens/counts.hpp)
  bool in_atomic;                 ///< an atomic was noted, and is now done
  unsigned marker;                ///< non-zero: keeps this object out of .tbss
};
inline constinit thread_local ThreadLocal t_local{nullptr, 0, false, false, 1};

enum class Vote : std::uint8_t { none, count, all, any };

/// __syncthreads and its voting forms: returns 0, the count of non-zero predicates, or 0/1.
int block_barrier(Vote vote, int predicate, Where at);

enum class WarpOp : std::uint8_t {
  sync,
  shuffle,
  ballot,
  match_any,
  tiles,
  add_u32,
  min_u32,
  max_u32,
  min_s32,
  max_s32,
  and_u32,
  or_u32,
  xor_u32
};

/// What a lane brings to a meeting of its warp: `value` (up to 64 bits), and for a shuffle the lane it wants.
/// All lanes of `mask` that have not exited must come, with the same mask and from the same place. Returns
/// the value of the wanted lane, the ballot, the matching lanes or the reduced value. A wanted lane that is
/// not among those that came yields junk, as hardware leaves it undefined.
std::uint64_t meet(WarpOp op, unsigned mask, std::uint64_t value, unsigned lane, Where at);

/// What a lane brings to a product of tiles on the tensor cores: where its 4 elements of d, its 4 of a and its
/// 2 of b lie.
struct TileOperands {
  float* d = nullptr;
  const float* a = nullptr;
  const float* b = nullptr;
};

/// d += a b by a whole warp. A fault if one of its lanes has exited.
void multiply_tiles(TileOperands mine, Where at);
/// d += a b with 16 x 8, 8 x 8 and 16 x 8 elements, which the lanes hold as common/gpu/tensor.hpp tells. The
/// lower 13 bits of a and b are ignored. Each sum of products and old d is exact here until it is rounded
/// towards zero to a float: so hardware rounds, which drops low bits of products besides.
/// Source: H. Ootomo and R. Yokota ("Recovering single precision accuracy from Tensor Cores while surpassing
/// the FP32 theoretical peak performance", IJHPCA 2022).
void multiply(const std::array<TileOperands, 32>& lanes);
/// `value` rounded to the 11 significant bits of TF32, ties away from zero.
float nearest_tf32(float value);

/// One turn of a waiting loop: lets the others run. `spin_end` tells that the loop was left.
void spin_turn(Where at);
void spin_end();

/// A turn of a loop that may wait, or may not (sleeps, long series of atomics): lets the others run, but is
/// no evidence that the thread makes no progress.
void pause_turn(Where at);

/// Grid-wide barrier of a cooperative launch.
void grid_barrier(Where at);

/// Where `own`, which must lie in this block's dynamic shared memory, lies in that of block `rank` of the
/// cluster. A fault while that block has not begun (a cluster barrier comes first) or has ended.
void* cluster_shared_memory(void* own, unsigned rank, Where at);

/// The block's dynamic shared memory; its size is exactly what the launch asked for.
void* dynamic_shared_memory();

unsigned lane_of_thread();

/// Stops the kernel with a fault of the calling thread; outside a kernel it throws Error.
[[noreturn]] void device_fault(std::string what, Where at);
[[noreturn]] void misaligned_access(const void* p, std::size_t alignment, Where at);

/// The device's compute capability, as 75 or 90.
int compute_capability();

/// A fault of a kernel that calls `what`, which devices before `needed` do not have.
void require_capability(int needed, const char* what, Where at);

/// A fault unless `p` is a multiple of T's alignment: hardware ends the kernel there, x86 does not mind.
template <class T>
void require_aligned(const T* p, Where at) {
  if (reinterpret_cast<std::uintptr_t>(p) % alignof(T) != 0) misaligned_access(p, alignof(T), at);
}

/// Called by every atomic: a loop of atomics must let others run at times (a lock's holder may be one of
/// them) and must be stoppable.
inline void note_atomic(Where at) {
  if (++t_local.atomics_since_switch >= 4096) [[unlikely]] {
    t_local.atomics_since_switch = 0;
    if (t_local.runner) pause_turn(at);
  }
}

/// How far an atomic operation or a fence reaches. A block is all there is where `thread` would do.
enum class Scope : std::uint8_t { thread, block, device };

/// What shared memory has to do for an atomic operation (sm_90): one instruction, a compare-and-swap, or a loop
/// around one, as it changes words of 32 bits only and cannot add floating-point numbers.
enum class AtomicWay : std::uint8_t { one, compare_swap, swap_loop };

/// What an atomic operation promises; CUDA's own, such as atomicAdd, promise nothing but to be atomic.
struct AtomicHow {
  Scope scope = Scope::device;
  bool acquires = false, releases = false;
  AtomicWay way = AtomicWay::one;
  // What is no atomic operation, but more than a plain load or store to the search for races.
  bool is_volatile = false;
  bool vector = false;     ///< each of its elements is a word of its own
  bool read_only = false;  ///< a plain load through the cache for what no thread of the launch writes
};

/// Notes, where that is wanted, that the kernel changes `bytes` bytes at `p` atomically.
void trace_atomic(const volatile void* p, unsigned bytes, AtomicHow how);
/// The load or store of `p` that comes next is an atomic one.
void trace_next(const volatile void* p, AtomicHow how);
void trace_fence(Scope scope);
void trace_look(bool begins);

/// The same of one that changes *p.
template <class T>
void note_atomic_change(T* p, Where at, AtomicHow how = {}) {
  note_atomic(at);
  if (t_local.tracing) [[unlikely]]
    trace_atomic(p, sizeof(T), how);
}
/// Of a load or store that comes next.
inline void note_atomic_next(const volatile void* p, AtomicHow how) {
  if (t_local.tracing) [[unlikely]]
    trace_next(p, how);
}
inline void note_fence(Scope scope) {
  if (t_local.tracing) [[unlikely]]
    trace_fence(scope);
}
/// A thread that waits begins to look whether it may go on, or has looked.
inline void note_look(bool begins) {
  if (t_local.tracing) [[unlikely]]
    trace_look(begins);
}

// ---- host side --------------------------------------------------------------------------------------------

/// One launch, type-erased: `invoke(args)` is the kernel called for the current thread.
struct Grid {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  bool cooperative = false;
  unsigned cluster = 1;  ///< blocks per cluster; more than 1 only as a grid that is one cluster
  const void* kernel = nullptr;
  void (*invoke)(const void*) = nullptr;
  const void* args = nullptr;
  Where where = Where::current();
  std::size_t shared_limit = ~std::size_t{0};  ///< of a block, static and dynamic together

  /// Whether all blocks run at once and may wait for each other.
  bool resident() const { return cooperative || cluster > 1; }
};

enum class Fault : std::uint8_t { none, device, deadlock, timeout, late };

/// Runs all blocks and returns when they are done. On a fault the other threads are abandoned where they
/// stand and `report` says what happened. Limits are the caller's business (runtime.cpp).
Fault run_grid(const Grid& grid, std::string& report);

/// The kernels that ran since the last call, each once.
std::set<const void*> take_kernels_that_ran();

/// forward, reverse or random:SEED; empty takes STAGES_SCHEDULE from the environment again. Throws Error for
/// another word.
void set_schedule(const std::string& schedule);

/// Seconds without any progress after which a running kernel is stopped; 0 takes STAGES_WATCHDOG (default
/// 60).
void set_watchdog(double seconds);

/// From that moment on kernels that run are stopped, and none begins: Fault::late. Nothing: no such moment.
using Moment = std::chrono::steady_clock::time_point;
void set_deadline(std::optional<Moment> moment);
/// Whether a kernel was stopped, or did not begin, because of the last deadline set.
bool missed_deadline();

}  // namespace stages::simt

/// The kernel's coordinates. Set at each switch of threads; meaningful inside kernels only.
inline constinit thread_local uint3 threadIdx{~0u, ~0u, ~0u};
inline constinit thread_local uint3 blockIdx{~0u, ~0u, ~0u};
inline constinit thread_local dim3 blockDim{~0u, ~0u, ~0u};
inline constinit thread_local dim3 gridDim{~0u, ~0u, ~0u};
inline constexpr int warpSize = 32;
