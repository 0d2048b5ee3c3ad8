#include "common/mpi/shared_window.hpp"

#include <sys/statvfs.h>

#include <atomic>
#include <cstdlib>
#include <exception>

#include "common/matrix/error.hpp"
#include "common/mpi/check.hpp"

namespace stages::mpi {
namespace {

/// Open MPI backs shared windows by a file in this directory. A file system that is full shows only when a
/// page is touched, and then kills the process; so ask before.
std::string lack_of_room(double bytes) {
  const char* const chosen = std::getenv("OMPI_MCA_osc_sm_backing_directory");
  const char* const directory = chosen != nullptr ? chosen : "/dev/shm";
  struct statvfs facts {};
  if (statvfs(directory, &facts) != 0) return {};  // another MPI, another place
  const double room = static_cast<double>(facts.f_bavail) * static_cast<double>(facts.f_frsize);
  if (bytes <= room) return {};
  return fmt::format(
      "{:.0f} bytes of shared memory are needed and {} has room for {:.0f}; make it larger, or name another "
      "directory in OMPI_MCA_osc_sm_backing_directory",
      bytes, directory, room);
}

/// A quarter more than asked for, so that results of about one size do not grow a window again and again.
constexpr double kReserve = 0.25;
constexpr double kMore = 4096;

}  // namespace

std::string shared_memory_problem(std::span<const double> bytes) {
  double all = 0;
  for (const double window : bytes) all += (1 + kReserve) * window + kMore;
  return lack_of_room(all);
}

SharedWindow::~SharedWindow() {
  // Giving it back waits for all ranks of the node. After an exception they don't come: all are about to end.
  if (std::uncaught_exceptions() == 0) release();
}

void SharedWindow::release() {
  if (window_ == MPI_WIN_NULL) return;
  MPI_Win_unlock_all(window_);
  MPI_Win_free(&window_);
  window_ = MPI_WIN_NULL;
  data_ = nullptr;
  capacity_ = 0;
}

void SharedWindow::reserve(std::size_t bytes) {
  if (bytes <= capacity_) return;
  release();
  const auto wanted = static_cast<std::size_t>((1 + kReserve) * static_cast<double>(bytes) + kMore);
  const int rank = own_rank(node_);
  if (rank == 0) {
    if (const std::string lack = lack_of_room(static_cast<double>(wanted)); !lack.empty()) fail("{}", lack);
  }
  void* own = nullptr;
  check(MPI_Win_allocate_shared(rank == 0 ? static_cast<MPI_Aint>(wanted) : 0, 1, MPI_INFO_NULL, node_, &own,
                                &window_),
        "allocating shared memory");
  check(MPI_Win_lock_all(MPI_MODE_NOCHECK, window_), "opening the shared memory");
  MPI_Aint size = 0;
  int unit = 0;
  void* place = nullptr;
  check(MPI_Win_shared_query(window_, 0, &size, &unit, &place), "finding the shared memory");
  data_ = static_cast<std::byte*>(place);
  capacity_ = wanted;
}

void SharedWindow::fence() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (window_ != MPI_WIN_NULL) check(MPI_Win_sync(window_), "publishing shared memory");
  check(MPI_Barrier(node_), "waiting for the ranks of this node");
  if (window_ != MPI_WIN_NULL) check(MPI_Win_sync(window_), "seeing shared memory");
}

}  // namespace stages::mpi
