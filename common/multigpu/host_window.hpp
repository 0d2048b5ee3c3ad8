#pragma once
// Host memory that all processes of a node see and that their GPUs reach at full speed.

#include "common/gpu/check.hpp"
#include "common/mpi/shared_window.hpp"

namespace stages::mpi {

/// A SharedWindow whose pages are locked for this process's GPU. Locking is slow (some 5 GB/s), so it is done
/// where the window grows, and that belongs into the warm-up.
class HostWindow {
 public:
  /// Empty. `node` must outlive the window.
  explicit HostWindow(MPI_Comm node) : window_(node) {}
  ~HostWindow() { unlock(); }
  HostWindow(const HostWindow&) = delete;
  HostWindow& operator=(const HostWindow&) = delete;

  /// See SharedWindow::reserve. Where the pages cannot be locked (a limit of the system), copies work all the
  /// same, at about a third of the speed.
  void reserve(std::size_t bytes);
  std::byte* data() const { return window_.data(); }
  bool locked() const { return locked_; }
  void fence() const { window_.fence(); }

 private:
  void unlock() noexcept;

  SharedWindow window_;
  bool locked_ = false;
};

/// An array in a HostWindow.
template <class T>
using HostArray = SharedArray<T, HostWindow>;

}  // namespace stages::mpi
