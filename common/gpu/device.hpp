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

#endif

}  // namespace stages
