#pragma once
// Thread-block clusters (compute capability 9.0 and later, and code that was compiled for that): up to 16
// blocks that run at the same time and reach each other's shared memory.

#include "common/gpu/cuda.hpp"
#include "common/gpu/facts.hpp"

namespace stages {

/// Whether clusters of `blocks` blocks can run: on the current device, by the code that it takes.
inline bool has_clusters(int blocks) { return blocks <= 16 && code_capability() >= 90; }

/// Lets `kernel` be launched with more than the 8 blocks a cluster that every such device grants.
template <class... P>
void allow_large_cluster(void (*kernel)(P...)) {
  STAGES_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
}

/// Whether the device holds one cluster of `blocks` blocks of this kernel; not all that have clusters hold
/// more than 8. After allow_shared_bytes and allow_large_cluster.
template <class... P>
bool fits_a_cluster([[maybe_unused]] void (*kernel)(P...), [[maybe_unused]] int blocks,
                    [[maybe_unused]] int block_threads, [[maybe_unused]] std::size_t shared_bytes) {
#if STAGES_SIMULATED
  return true;  // the executor refuses a launch that does not fit
#else
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = static_cast<unsigned>(blocks);
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = static_cast<unsigned>(blocks);
  config.blockDim = static_cast<unsigned>(block_threads);
  config.dynamicSmemBytes = shared_bytes;
  config.attrs = &cluster;
  config.numAttrs = 1;
  int clusters = 0;
  const cudaError_t status = cudaOccupancyMaxActiveClusters(&clusters, kernel, &config);
  if (status == cudaErrorInvalidClusterSize) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  check_cuda(status, "cudaOccupancyMaxActiveClusters");
  return clusters > 0;
#endif
}

#ifdef __CUDACC__

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
// Compiled for older devices too, where has_clusters() is false and no such kernel is launched.
__device__ __forceinline__ unsigned cluster_rank() {
  __trap();
  return 0;
}
__device__ __forceinline__ void cluster_sync() { __trap(); }
template <class T>
__device__ __forceinline__ T* cluster_shared(T* own, unsigned) {
  __trap();
  return own;
}
#else
/// The number of this block within its cluster.
__device__ __forceinline__ unsigned cluster_rank() { return cooperative_groups::this_cluster().block_rank(); }

/// Barrier over all threads of the cluster.
__device__ __forceinline__ void cluster_sync() { cooperative_groups::this_cluster().sync(); }

/// Where `own`, in this block's dynamic shared memory, lies in that of the block `rank`.
template <class T>
__device__ __forceinline__ T* cluster_shared(T* own, unsigned rank) {
  return cooperative_groups::this_cluster().map_shared_rank(own, rank);
}
#endif

#elif STAGES_SIMULATED

inline unsigned cluster_rank() { return blockIdx.x; }
inline void cluster_sync(simt::Where at = simt::Where::current()) { simt::grid_barrier(at); }
template <class T>
T* cluster_shared(T* own, unsigned rank, simt::Where at = simt::Where::current()) {
  return static_cast<T*>(simt::cluster_shared_memory(own, rank, at));
}

#endif

}  // namespace stages
