#pragma once
// Memory on the GPU of rank 0 that the processes of its node write to, each from its own GPU.

#include <cstddef>

#include "common/gpu/memory.hpp"
#include "common/mpi/communicator.hpp"
#include "common/mpi/shared_window.hpp"

namespace stages::mpi {

/// It only grows, because making it known to the other processes is slow; growth belongs into the warm-up. On
/// the executor pieces go by way of a SharedWindow. For a single node whose processes reach each other's GPUs
/// (PeerMemory::reachable).
class RootMemory {
 public:
  /// Empty. `ranks` must outlive it.
  explicit RootMemory(const MpiCommunicator& ranks) : ranks_(ranks), window_(ranks.node()) {}
  ~RootMemory();
  RootMemory(const RootMemory&) = delete;
  RootMemory& operator=(const RootMemory&) = delete;

  /// Makes room for `bytes`, the same number on all processes. What it held is lost where it grows.
  /// Collective. Throws OutOfDeviceMemory on rank 0.
  void reserve(std::size_t bytes);

  /// Copies `bytes` bytes from this process's GPU to byte `at`, by work on `stream`. Processes write to
  /// different places, and `from` stays as it is until complete().
  void write(std::size_t at, const void* from, std::size_t bytes, cudaStream_t stream);

  /// What all processes have written before this call is there after it. Collective.
  void complete(cudaStream_t stream);

  std::byte* data() { return memory_.data(); }  ///< on rank 0: device memory
  const std::byte* data() const { return memory_.data(); }

 private:
  void open();
  void close() noexcept;

  const MpiCommunicator& ranks_;
  std::size_t capacity_ = 0;
  DeviceArray<std::byte> memory_;  ///< on rank 0
  std::byte* place_ = nullptr;     ///< where this process sees it; null on the executor
  SharedWindow window_;            ///< on the executor
};

/// An array in a RootMemory.
template <class T>
class RootArray {
 public:
  explicit RootArray(const MpiCommunicator& ranks) : memory_(ranks) {}
  /// See RootMemory::reserve.
  void reserve(Offset count) { memory_.reserve(static_cast<std::size_t>(count) * sizeof(T)); }
  /// Elements `at` .. `at` + `count` - 1; see RootMemory::write.
  void write(Offset at, const T* from, Offset count, cudaStream_t stream) {
    memory_.write(static_cast<std::size_t>(at) * sizeof(T), from, static_cast<std::size_t>(count) * sizeof(T),
                  stream);
  }
  void complete(cudaStream_t stream) { memory_.complete(stream); }
  T* data() { return reinterpret_cast<T*>(memory_.data()); }
  const T* data() const { return reinterpret_cast<const T*>(memory_.data()); }

 private:
  RootMemory memory_;
};

}  // namespace stages::mpi
