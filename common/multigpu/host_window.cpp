#include "common/multigpu/host_window.hpp"

namespace stages::mpi {

void HostWindow::reserve(std::size_t bytes) {
  if (bytes <= window_.capacity()) return;
  unlock();
  window_.reserve(bytes);
#if STAGES_SIMULATED
  locked_ = true;  // the executor's copies know no other speed
#else
  locked_ = cudaHostRegister(window_.data(), window_.capacity(), cudaHostRegisterDefault) == cudaSuccess;
  if (!locked_) static_cast<void>(cudaGetLastError());
#endif
}

void HostWindow::unlock() noexcept {
#if !STAGES_SIMULATED
  if (locked_) {
    // After an exception a copy may still be on its way.
    warn_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    warn_cuda(cudaHostUnregister(window_.data()), "cudaHostUnregister");
  }
#endif
  locked_ = false;
}

}  // namespace stages::mpi
