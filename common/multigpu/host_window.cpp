#include "common/multigpu/host_window.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

#include "common/gpu/memory.hpp"
#include "common/gpu/stream.hpp"
#include "common/mpi/check.hpp"
#include "common/mpi/clocks.hpp"
#include "common/mpi/transfer.hpp"

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

double to_host_bytes_per_second(MPI_Comm comm) {
  if (STAGES_SIMULATED) return std::numeric_limits<double>::quiet_NaN();
  constexpr int kCopies = 4;
  const Stream stream;
  const DeviceArray<std::byte> from(std::size_t{64} << 20);
  PinnedArray<std::byte> to(from.size());
  double best = 0;
  for (int run = 0; run < 4; ++run) {
    check(MPI_Barrier(comm), "starting together");
    const auto start = std::chrono::steady_clock::now();
    for (int k = 0; k < kCopies; ++k) from.download(to, stream);
    stream.synchronize();
    double seconds = seconds_since(start), ranks = 1;
    max_over_ranks(std::span(&seconds, 1), comm);
    sum_over_ranks(std::span(&ranks, 1), comm);
    best = std::max(best, ranks * kCopies * static_cast<double>(from.bytes()) / seconds);
  }
  return best;
}

}  // namespace stages::mpi
