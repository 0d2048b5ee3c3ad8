#include "common/multigpu/root_memory.hpp"

#include <exception>

#include "common/mpi/check.hpp"
#include "common/mpi/transfer.hpp"
#include "common/multigpu/peer_memory.hpp"

namespace stages::mpi {

// As in PeerMemory: the memory goes after all have given their handles back.
RootMemory::~RootMemory() {
  close();
  if (std::uncaught_exceptions() == 0) MPI_Barrier(ranks_.comm());
}

void RootMemory::reserve(std::size_t bytes) {
  if (bytes <= capacity_) return;
  close();
  check(MPI_Barrier(ranks_.comm()), "waiting until nobody uses the memory");
  memory_ = {};
  // A quarter more than asked for, so that results of about one size do not grow it again and again.
  capacity_ = bytes_behind_handle(bytes + bytes / 4);
  if (ranks_.rank() == 0) memory_ = DeviceArray<std::byte>(capacity_);
  open();
}

#if STAGES_SIMULATED

void RootMemory::open() { window_.reserve(capacity_); }
void RootMemory::close() noexcept {}

void RootMemory::write(std::size_t at, const void* from, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return;
  STAGES_CUDA(cudaMemcpyAsync(window_.data() + at, from, bytes, cudaMemcpyDeviceToHost, stream));
  if (ranks_.rank() != 0) add_traffic(static_cast<Offset>(bytes));
}

void RootMemory::complete(cudaStream_t stream) {
  STAGES_CUDA(cudaStreamSynchronize(stream));
  window_.fence();
  if (ranks_.rank() == 0 && capacity_ > 0) {
    STAGES_CUDA(cudaMemcpyAsync(memory_.data(), window_.data(), capacity_, cudaMemcpyHostToDevice, stream));
    STAGES_CUDA(cudaStreamSynchronize(stream));
  }
  window_.fence();
}

#else

void RootMemory::open() {
  cudaIpcMemHandle_t handle = {};
  if (ranks_.rank() == 0) STAGES_CUDA(cudaIpcGetMemHandle(&handle, memory_.data()));
  broadcast(&handle, 1, 0, ranks_.comm());
  if (ranks_.rank() == 0) {
    place_ = memory_.data();
    return;
  }
  void* place = nullptr;
  STAGES_CUDA(cudaIpcOpenMemHandle(&place, handle, cudaIpcMemLazyEnablePeerAccess));
  place_ = static_cast<std::byte*>(place);
}

void RootMemory::close() noexcept {
  if (place_ != nullptr && ranks_.rank() != 0) {
    // After an exception copies may still be on their way.
    warn_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    warn_cuda(cudaIpcCloseMemHandle(place_), "cudaIpcCloseMemHandle");
  }
  place_ = nullptr;
}

void RootMemory::write(std::size_t at, const void* from, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return;
  STAGES_CUDA(cudaMemcpyAsync(place_ + at, from, bytes, cudaMemcpyDeviceToDevice, stream));
  if (ranks_.rank() != 0) add_traffic(static_cast<Offset>(bytes));
}

void RootMemory::complete(cudaStream_t stream) {
  STAGES_CUDA(cudaStreamSynchronize(stream));
  check(MPI_Barrier(ranks_.comm()), "waiting for all pieces");
}

#endif

}  // namespace stages::mpi
