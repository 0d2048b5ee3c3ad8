#include "common/multigpu/peer_memory.hpp"

#include <exception>

#include "common/mpi/check.hpp"
#include "common/mpi/transfer.hpp"

namespace stages::mpi {

PeerMemory::PeerMemory(const MpiCommunicator& ranks, Offset bytes)
    : ranks_(ranks),
      memory_(bytes_behind_handle(static_cast<std::size_t>(bytes))),
      of_others_(static_cast<std::size_t>(ranks.size()), nullptr),
      window_(ranks.node()) {
  if (ranks.nodes() > 1) return;
  open();
}

// The others may still read from here, and give their handles back before this memory goes. After an
// exception they don't come.
PeerMemory::~PeerMemory() {
  close();
  if (std::uncaught_exceptions() == 0) MPI_Barrier(ranks_.comm());
}

void PeerMemory::broadcast(Offset at, const void* from, Offset bytes, cudaStream_t stream) {
  const bool root = ranks_.rank() == 0;
  const auto size = static_cast<std::size_t>(bytes);
  Buffer<std::byte> message(root || reachable_ ? 0 : size);
  void* const data = root ? const_cast<void*>(from) : message.data();
  if (!reachable_) broadcast_bytes(data, size, 0, ranks_.comm());
  if (size > 0 && (root || !reachable_))
    STAGES_CUDA(cudaMemcpyAsync(memory_.data() + at, data, size, cudaMemcpyHostToDevice, stream));
  STAGES_CUDA(cudaStreamSynchronize(stream));
  std::vector<Offset> bounds(of_others_.size() + 1, at + bytes);
  bounds.front() = at;  // rank 0's part is all
  if (reachable_) share(bounds, stream);
}

#if STAGES_SIMULATED

void PeerMemory::open() {
  window_.reserve(memory_.bytes());
  reachable_ = true;
}

void PeerMemory::close() noexcept {}

void PeerMemory::share(std::span<const Offset> bounds, cudaStream_t stream) {
  const auto me = static_cast<std::size_t>(ranks_.rank());
  const auto copy = [&](std::size_t part, bool out) {
    const Offset at = bounds[part], bytes = bounds[part + 1] - at;
    if (bytes == 0) return;
    std::byte* const here = memory_.data() + at;
    std::byte* const there = window_.data() + at;
    STAGES_CUDA(cudaMemcpyAsync(out ? there : here, out ? here : there, static_cast<std::size_t>(bytes),
                                out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, stream));
  };
  copy(me, true);
  STAGES_CUDA(cudaStreamSynchronize(stream));
  window_.fence();
  for (std::size_t part = 0; part + 1 < bounds.size(); ++part)
    if (part != me) copy(part, false);
  STAGES_CUDA(cudaStreamSynchronize(stream));
  add_traffic(bounds.back() - bounds.front() - (bounds[me + 1] - bounds[me]));
  window_.fence();
}

#else

void PeerMemory::open() {
  cudaIpcMemHandle_t handle = {};
  bool good = cudaIpcGetMemHandle(&handle, memory_.data()) == cudaSuccess;
  std::vector<cudaIpcMemHandle_t> handles(of_others_.size());
  check(
      MPI_Allgather(&handle, sizeof handle, MPI_BYTE, handles.data(), sizeof handle, MPI_BYTE, ranks_.comm()),
      "telling each other the handles of device memory");
  for (std::size_t r = 0; r < handles.size() && good; ++r) {
    if (static_cast<int>(r) == ranks_.rank()) continue;
    void* place = nullptr;
    good = cudaIpcOpenMemHandle(&place, handles[r], cudaIpcMemLazyEnablePeerAccess) == cudaSuccess;
    of_others_[r] = good ? static_cast<std::byte*>(place) : nullptr;
  }
  if (!good) static_cast<void>(cudaGetLastError());
  double against = good ? 0 : 1;
  max_over_ranks(std::span(&against, 1), ranks_.comm());
  reachable_ = against == 0;
  if (!reachable_) close();
}

void PeerMemory::close() noexcept {
  // After an exception copies may still be on their way.
  warn_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  for (std::byte*& place : of_others_) {
    if (place != nullptr) warn_cuda(cudaIpcCloseMemHandle(place), "cudaIpcCloseMemHandle");
    place = nullptr;
  }
}

// Each process begins with the one behind it, so that not all of them read from the same GPU.
void PeerMemory::share(std::span<const Offset> bounds, cudaStream_t stream) {
  const auto me = static_cast<std::size_t>(ranks_.rank()), processes = bounds.size() - 1;
  STAGES_CUDA(cudaStreamSynchronize(stream));
  check(MPI_Barrier(ranks_.comm()), "waiting for all parts");
  for (std::size_t step = 1; step < processes; ++step) {
    const std::size_t other = (me + step) % processes;
    const Offset at = bounds[other], bytes = bounds[other + 1] - at;
    if (bytes == 0) continue;
    STAGES_CUDA(cudaMemcpyAsync(memory_.data() + at, of_others_[other] + at, static_cast<std::size_t>(bytes),
                                cudaMemcpyDeviceToDevice, stream));
  }
  STAGES_CUDA(cudaStreamSynchronize(stream));
  add_traffic(bounds.back() - bounds.front() - (bounds[me + 1] - bounds[me]));
  check(MPI_Barrier(ranks_.comm()), "waiting until all have read");
}

#endif

}  // namespace stages::mpi
