#pragma once
// Device-side helpers that need a twin on each backend: dynamic shared memory, waiting in a loop, the grid
// barrier. Kernels call these instead of the CUDA idiom; everything else in a kernel is ordinary CUDA C++.

#include "common/gpu/backend.hpp"

namespace stages {

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
__device__ __forceinline__ void grid_sync() {
  cooperative_groups::this_grid().sync();
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
  bool waited = false;
  while (!ready()) {
    simt::spin_turn(at);
    waited = true;
  }
  if (waited) simt::spin_end();
}

inline void grid_sync(simt::Where at = simt::Where::current()) {
  simt::grid_barrier(at);
}

// Here one kernel is done before the next begins, whatever a launch allows.
inline void let_next_kernel_start() {}
inline void wait_for_earlier_kernel() {}

#endif

}  // namespace stages
