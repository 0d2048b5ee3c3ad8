#pragma once
// Device memory of all processes of a node that is meant to hold the same everywhere, and is brought together
// from parts: each process has one, and fetches the others straight from the GPUs that have them.

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "common/gpu/memory.hpp"
#include "common/mpi/communicator.hpp"
#include "common/mpi/shared_window.hpp"

namespace stages::mpi {

/// The bytes to ask cudaMalloc for where `bytes` are needed that other processes open by a handle. A handle
/// stands for whole blocks of 2 MiB, so these must hold nothing else; and one at least, so that there is
/// something to open. The executor has no handles.
inline std::size_t bytes_behind_handle(std::size_t bytes) {
  constexpr std::size_t kBlock = std::size_t{2} << 20;
  if (STAGES_SIMULATED) return bytes;
  return (std::max<std::size_t>(bytes, 1) + kBlock - 1) / kBlock * kBlock;
}

/// As many bytes on the GPU of each process of one node. A GPU reaches the others' memory by CUDA's handles
/// for other processes, which memory from pools has not: so it is from cudaMalloc, and lasts. On the
/// executor, whose processes see nothing of each other, parts go through a SharedWindow.
class PeerMemory {
 public:
  /// Collective. Throws OutOfDeviceMemory.
  PeerMemory(const MpiCommunicator& ranks, Offset bytes);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  /// False, on all processes, where one cannot reach another's memory: on several nodes, or where a process
  /// sees its own GPU only. share() must not be called then.
  bool reachable() const { return reachable_; }

  std::byte* data() { return memory_.data(); }

  /// Process p has the bytes bounds[p] .. bounds[p + 1], brought by work on `stream`. On return all processes
  /// have all of them. Collective.
  void share(std::span<const Offset> bounds, cudaStream_t stream);

  /// On return all processes have at byte `at` the bytes that rank 0 has on its host: from its GPU or, where
  /// that is not reachable, by messages and from each host. Collective.
  void broadcast(Offset at, const void* from, Offset bytes, cudaStream_t stream);

 private:
  void open();
  void close() noexcept;

  const MpiCommunicator& ranks_;
  DeviceArray<std::byte> memory_;
  bool reachable_ = false;
  std::vector<std::byte*> of_others_;  ///< by process; null for this one, and on the executor
  SharedWindow window_;                ///< on the executor
};

}  // namespace stages::mpi
