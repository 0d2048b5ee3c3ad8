#pragma once
// Memory that all ranks of a node see.

#include <mpi.h>

#include <cstddef>
#include <span>
#include <string>

#include "common/matrix/types.hpp"

namespace stages::mpi {

/// Why windows of so many bytes cannot be had together on this node; empty: as far as is known they can.
std::string shared_memory_problem(std::span<const double> bytes);

/// One piece of memory per node, seen at its own address by each rank of `node`. It only grows: growth is
/// slow (a new mapping, and pages that fault when first touched), so it belongs into the warm-up.
class SharedWindow {
 public:
  /// Empty. `node` must outlive the window.
  explicit SharedWindow(MPI_Comm node) : node_(node) {}
  ~SharedWindow();
  SharedWindow(const SharedWindow&) = delete;
  SharedWindow& operator=(const SharedWindow&) = delete;

  /// Makes room for `bytes`, the same number on all ranks of the node. What it held is lost where it grows.
  /// Collective over the node. Throws Error if there is not that much shared memory.
  void reserve(std::size_t bytes);
  std::byte* data() const { return data_; }
  std::size_t capacity() const { return capacity_; }

  /// What any rank of the node has written before this call is seen by all of them after it. Collective.
  void fence() const;

 private:
  void release();

  MPI_Comm node_;
  MPI_Win window_ = MPI_WIN_NULL;
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
};

/// An array in a SharedWindow, or in another Window that adds something to one.
template <class T, class Window = SharedWindow>
class SharedArray {
 public:
  explicit SharedArray(MPI_Comm node) : window_(node) {}
  /// See Window::reserve.
  void reserve(Offset count) { window_.reserve(static_cast<std::size_t>(count) * sizeof(T)); }
  T* data() const { return reinterpret_cast<T*>(window_.data()); }
  void fence() const { window_.fence(); }
  const Window& window() const { return window_; }

 private:
  Window window_;
};

}  // namespace stages::mpi
