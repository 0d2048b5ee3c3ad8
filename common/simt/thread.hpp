#pragma once
// The device side: what the device functions of device.hpp are made of, called by the CUDA thread that runs.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/simt/launch.hpp"

namespace stages::simt {

/// The 32-bit word that uninitialised and freed device memory is filled with: a NaN as float and (twice) as
/// double, and as int an index of two thousand million, so that its use shows.
inline constexpr std::uint32_t kJunk = 0x7FFADBADu;

/// State of the OS thread that runs a block. Everything here starts at non-zero values on purpose: it then
/// lies in .tdata, while the `__shared__` arrays of the kernels lie in .tbss, which is refilled with junk.
struct ThreadLocal {
  class BlockRunner* runner;      ///< null outside a kernel
  class BlockObserver* observer;  ///< null: nobody is told what the kernel does (observer.hpp)
  unsigned atomics_since_switch;  ///< see note_atomic
  bool in_atomic;                 ///< an atomic was noted, and is now done
  unsigned marker;                ///< non-zero: keeps this object out of .tbss
};
inline constinit thread_local ThreadLocal t_local{nullptr, nullptr, 0, false, 1};

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

/// Tells the observer that the kernel changes `bytes` bytes at `p` atomically.
void trace_atomic(const volatile void* p, unsigned bytes, AtomicHow how);
/// The load or store of `p` that comes next is an atomic one.
void trace_next(const volatile void* p, AtomicHow how);
void trace_fence(Scope scope);
void trace_look(bool begins);

/// The same of one that changes *p.
template <class T>
void note_atomic_change(T* p, Where at, AtomicHow how = {}) {
  note_atomic(at);
  if (t_local.observer != nullptr) [[unlikely]]
    trace_atomic(p, sizeof(T), how);
}
/// Of a load or store that comes next.
inline void note_atomic_next(const volatile void* p, AtomicHow how) {
  if (t_local.observer != nullptr) [[unlikely]]
    trace_next(p, how);
}
inline void note_fence(Scope scope) {
  if (t_local.observer != nullptr) [[unlikely]]
    trace_fence(scope);
}
/// A thread that waits begins to look whether it may go on, or has looked.
inline void note_look(bool begins) {
  if (t_local.observer != nullptr) [[unlikely]]
    trace_look(begins);
}

}  // namespace stages::simt

/// The kernel's coordinates. Set at each switch of threads; meaningful inside kernels only.
inline constinit thread_local uint3 threadIdx{~0u, ~0u, ~0u};
inline constinit thread_local uint3 blockIdx{~0u, ~0u, ~0u};
inline constinit thread_local dim3 blockDim{~0u, ~0u, ~0u};
inline constinit thread_local dim3 gridDim{~0u, ~0u, ~0u};
inline constexpr int warpSize = 32;
