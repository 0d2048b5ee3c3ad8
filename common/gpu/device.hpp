#pragma once
// Device-side helpers that need a twin on each backend, or on devices that lack an instruction: dynamic
// shared memory, waiting in a loop, the grid barrier, the largest value of a warp. Kernels call these instead
// of the CUDA idiom; everything else in a kernel is ordinary CUDA C++.

#include "common/gpu/backend.hpp"

namespace stages {

inline constexpr unsigned kWarp = 32;               ///< lanes
inline constexpr unsigned kAllLanes = 0xffffffffu;  ///< the mask of a whole warp

/// Threads that an SM of the device that is compiled for has room for.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
inline constexpr unsigned kThreadsOfSm = 1024;
#elif defined(__CUDA_ARCH__) && ((__CUDA_ARCH__ > 800 && __CUDA_ARCH__ < 900) || __CUDA_ARCH__ >= 1200)
inline constexpr unsigned kThreadsOfSm = 1536;
#else
inline constexpr unsigned kThreadsOfSm = 2048;
#endif

/// For __launch_bounds__: `wanted` blocks an SM, or as many as it has room for.
constexpr unsigned blocks_of_sm(unsigned wanted, unsigned block) {
  return wanted * block <= kThreadsOfSm ? wanted : kThreadsOfSm / block;
}

#ifdef __CUDACC__

/// The block's dynamic shared memory as T, aligned to 16 bytes. Uninitialised.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char stages_dynamic_shared[];
  return reinterpret_cast<T*>(stages_dynamic_shared);
}

/// Waits until `ready()` is true. Whatever it reads must be written by a thread that is certain to run: one
/// of an earlier block, or of any block in a cooperative launch. It must read through an atomic or volatile.
template <class Ready>
__device__ __forceinline__ void spin_until(Ready ready) {
  while (!ready()) {
  }
}

/// Barrier over all threads of a cooperative launch.
__device__ __forceinline__ void grid_sync() { cooperative_groups::this_grid().sync(); }

/// The largest of the values of a warp, in all of its lanes, which all must come.
__device__ __forceinline__ int warp_max(int value) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  return __reduce_max_sync(kAllLanes, value);
#else
  for (int distance = 16; distance > 0; distance /= 2) {
    value = max(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
#endif
}

/// Lets the next kernel on the stream start if it was launched `early`, once all blocks have called this.
__device__ __forceinline__ void let_next_kernel_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/// Waits until the kernel before this one on the stream is done and all that it wrote can be seen.
__device__ __forceinline__ void wait_for_earlier_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

#elif STAGES_SIMULATED

template <class T>
T* dynamic_shared() {
  static_assert(alignof(T) <= 16);
  return static_cast<T*>(simt::dynamic_shared_memory());
}

template <class Ready>
void spin_until(Ready ready, simt::Where at = simt::Where::current()) {
  const auto looks = [&] {
    simt::note_look(true);
    const bool is_ready = ready();
    simt::note_look(false);
    return is_ready;
  };
  bool waited = false;
  while (!looks()) {
    simt::spin_turn(at);
    waited = true;
  }
  if (waited) simt::spin_end();
}

inline void grid_sync(simt::Where at = simt::Where::current()) { simt::grid_barrier(at); }

inline int warp_max(int value, simt::Where at = simt::Where::current()) {
  if (simt::compute_capability() >= 80) return __reduce_max_sync(kAllLanes, value, at);
  for (int distance = 16; distance > 0; distance /= 2) {
    value = max(value, __shfl_xor_sync(kAllLanes, value, distance, kWarp, at));
  }
  return value;
}

// Here one kernel is done before the next begins, whatever a launch allows.
inline void let_next_kernel_start() {}
inline void wait_for_earlier_kernel() {}

#endif

}  // namespace stages
