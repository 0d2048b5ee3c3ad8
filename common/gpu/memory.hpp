#pragma once
// Owning device and pinned host arrays. Sizes are in elements; nothing is initialised unless it says so.

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "common/gpu/check.hpp"

namespace stages {

/// `size` elements of device memory, uninitialised (junk on the executor). Move-only. Throws
/// OutOfDeviceMemory.
template <class T>
class DeviceArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  DeviceArray() = default;
  explicit DeviceArray(std::size_t size) : size_(size) {
    if (size == 0) return;
    T* p = nullptr;
    STAGES_CUDA(cudaMalloc(&p, bytes()));
    data_.reset(p);
  }

  /// A device copy of `host`, complete on return.
  explicit DeviceArray(std::span<const T> host) : DeviceArray(host.size()) {
    if (size_ == 0) return;
    STAGES_CUDA(cudaMemcpy(data(), host.data(), bytes(), cudaMemcpyHostToDevice));
    // From pageable memory cudaMemcpy may return while the last piece is still on its way, ordered only with
    // the default stream; our streams do not wait for that one.
    STAGES_CUDA(cudaStreamSynchronize(nullptr));
  }

  /// Copies host.size() elements to the array's start. Asynchronous if `host` is pinned.
  void upload(std::span<const T> host, cudaStream_t stream) {
    require(host.size());
    if (host.empty()) return;
    STAGES_CUDA(cudaMemcpyAsync(data(), host.data(), host.size_bytes(), cudaMemcpyHostToDevice, stream));
  }

  /// Copies the first host.size() elements. Asynchronous if `host` is pinned: synchronise before reading.
  void download(std::span<T> host, cudaStream_t stream) const {
    require(host.size());
    if (host.empty()) return;
    STAGES_CUDA(cudaMemcpyAsync(host.data(), data(), host.size_bytes(), cudaMemcpyDeviceToHost, stream));
  }

  /// The contents on the host, after all work on the device.
  std::vector<T> to_host() const {
    std::vector<T> host(size_);
    STAGES_CUDA(cudaDeviceSynchronize());
    if (size_ > 0) STAGES_CUDA(cudaMemcpy(host.data(), data(), bytes(), cudaMemcpyDeviceToHost));
    return host;
  }

  /// Sets every byte; 0 zeroes any arithmetic T, 0xFF poisons floating-point numbers with NaN.
  void fill_bytes(unsigned char byte, cudaStream_t stream) {
    if (size_ > 0) STAGES_CUDA(cudaMemsetAsync(data(), byte, bytes(), stream));
  }
  void zero(cudaStream_t stream) { fill_bytes(0, stream); }

  T* data() { return static_cast<T*>(data_.get()); }
  const T* data() const { return static_cast<const T*>(data_.get()); }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }
  bool empty() const { return size_ == 0; }

 private:
  void require(std::size_t count) const {
    if (count > size_) fail("a copy of {} elements meets a device array of {}", count, size_);
  }

  detail::Owned<void, cudaFree> data_;
  std::size_t size_ = 0;
};

/// `size` elements of page-locked, uninitialised host memory: copies are asynchronous and at full speed.
template <class T>
class PinnedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  PinnedArray() = default;
  explicit PinnedArray(std::size_t size) : size_(size) {
    if (size == 0) return;
    void* p = nullptr;
    STAGES_CUDA(cudaHostAlloc(&p, size * sizeof(T), cudaHostAllocDefault));
    data_.reset(p);
  }
  T* data() { return static_cast<T*>(data_.get()); }
  const T* data() const { return static_cast<const T*>(data_.get()); }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  operator std::span<T>() { return {data(), size_}; }
  operator std::span<const T>() const { return {data(), size_}; }

 private:
  detail::Owned<void, cudaFreeHost> data_;
  std::size_t size_ = 0;
};

}  // namespace stages
