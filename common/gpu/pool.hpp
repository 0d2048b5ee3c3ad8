#pragma once
// Device memory that is taken and given back in the order of a stream. cudaMalloc and cudaFree wait for the
// device and cost up to milliseconds; a pool hands out what it got back before in a few microseconds, and
// only grows where that is not enough.

#include <cstddef>
#include <limits>
#include <memory>
#include <type_traits>

#include "common/gpu/check.hpp"

namespace stages {

/// A pool of the current device's memory, which keeps all it ever held until it is destroyed. On the executor
/// it is no more than cudaMallocAsync.
class MemoryPool {
 public:
#if STAGES_SIMULATED
  void* allocate(std::size_t bytes, cudaStream_t stream) {
    void* p = nullptr;
    STAGES_CUDA(cudaMallocAsync(&p, bytes, stream));
    return p;
  }
  void trim() {}
#else
  MemoryPool() {
    int device = 0;
    STAGES_CUDA(cudaGetDevice(&device));
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = device;
    cudaMemPool_t pool = nullptr;
    STAGES_CUDA(cudaMemPoolCreate(&pool, &props));
    pool_.reset(pool);
    auto keep = std::numeric_limits<unsigned long long>::max();
    STAGES_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  }

  /// Throws OutOfDeviceMemory.
  void* allocate(std::size_t bytes, cudaStream_t stream) {
    void* p = nullptr;
    STAGES_CUDA(cudaMallocFromPoolAsync(&p, bytes, pool_.get(), stream));
    return p;
  }

  /// Gives what is not in use back to the device. What was freed counts once its stream has passed the place.
  void trim() { STAGES_CUDA(cudaMemPoolTrimTo(pool_.get(), 0)); }

 private:
  struct Destroy {
    // What was given back last may still wait for its stream, and the driver would have to bury the pool
    // later, in the middle of other work.
    void operator()(cudaMemPool_t pool) const noexcept {
      warn_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      warn_cuda(cudaMemPoolDestroy(pool), "cudaMemPoolDestroy");
    }
  };
  std::unique_ptr<std::remove_pointer_t<cudaMemPool_t>, Destroy> pool_;
#endif
};

/// `size` elements from a pool, uninitialised; given back, in the order of the stream, at the end. Move-only.
/// Lives shorter than its pool and its stream.
template <class T>
class PooledArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  PooledArray() = default;
  /// Throws OutOfDeviceMemory.
  PooledArray(MemoryPool& pool, std::size_t size, cudaStream_t stream)
      : data_(size == 0 ? nullptr : static_cast<T*>(pool.allocate(size * sizeof(T), stream)), {stream}),
        size_(size) {}

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }

 private:
  struct GiveBack {
    cudaStream_t stream = nullptr;
    void operator()(T* p) const noexcept { warn_cuda(cudaFreeAsync(p, stream), "cudaFreeAsync"); }
  };
  std::unique_ptr<T, GiveBack> data_;
  std::size_t size_ = 0;
};

}  // namespace stages
