#pragma once
// The matrices that every stage shares: Coo, Csr, Csc and Dense own their arrays on the host; the *View types
// borrow arrays, on the host or on a GPU, and are trivially copyable so that kernels take them by value.
//
// Indices are 0-based. Row and column numbers are int32 (a matrix has at most 2^31 - 1 rows or columns);
// positions among the non-zeros are int64, because products easily pass 2^31 of them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace stages {

using Index = std::int32_t;   ///< A row or column number, or a count of rows or columns.
using Offset = std::int64_t;  ///< A position among the non-zeros, or a count of them or of products.

/// Rows and columns.
struct Shape {
  Index rows = 0, cols = 0;
};

/// An allocator that leaves new elements uninitialised: std::vector otherwise writes zeros over memory that
/// is about to be written anyway, which costs a pass over C in every sparse product.
template <class T>
struct DefaultInitAllocator : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = DefaultInitAllocator<U>;
  };
  using std::allocator<T>::allocator;

  template <class U>
  void construct(U* p) noexcept(std::is_nothrow_default_constructible_v<U>) {
    ::new (static_cast<void*>(p)) U;
  }
  template <class U, class... Args>
  void construct(U* p, Args&&... args) {
    ::new (static_cast<void*>(p)) U(std::forward<Args>(args)...);
  }
};

/// A std::vector whose resize(n) leaves the new elements uninitialised; resize(n, value) fills them.
template <class T>
using Buffer = std::vector<T, DefaultInitAllocator<T>>;

enum class Layout { row_major, col_major };

/// Compressed sparse rows, borrowed. Row i holds positions row_ptr[i] .. row_ptr[i + 1] - 1 of col_idx and
/// values. `Ptr` is int64 on the host; a GPU stage narrows it to int32 where the non-zeros allow.
template <class T, class Ptr = Offset>
struct CsrView {
  Index rows = 0, cols = 0;
  const Ptr* row_ptr = nullptr;    ///< rows + 1 positions, ascending, row_ptr[0] = 0
  const Index* col_idx = nullptr;  ///< nnz column numbers
  const T* values = nullptr;       ///< nnz values
};

/// Compressed sparse columns, borrowed: CsrView with the roles of rows and columns exchanged.
template <class T, class Ptr = Offset>
struct CscView {
  Index rows = 0, cols = 0;
  const Ptr* col_ptr = nullptr;
  const Index* row_idx = nullptr;
  const T* values = nullptr;
};

/// A dense matrix, borrowed: element (i, j) is at data[i * ld + j] (row_major) or data[j * ld + i]
/// (col_major).
template <class T>
struct DenseView {
  Index rows = 0, cols = 0;
  Offset ld = 0;  ///< leading dimension, in elements: >= cols (row_major) or >= rows (col_major)
  Layout layout = Layout::row_major;
  T* data = nullptr;

  constexpr Offset position(Index i, Index j) const {
    return layout == Layout::row_major ? i * ld + j : j * ld + i;
  }
  constexpr T& operator()(Index i, Index j) const { return data[position(i, j)]; }
};

/// Coordinate form: entry k is (row_idx[k], col_idx[k], values[k]). Any order; entries at the same place add
/// up.
template <class T>
struct Coo {
  Index rows = 0, cols = 0;
  Buffer<Index> row_idx, col_idx;
  Buffer<T> values;

  Offset nnz() const { return std::ssize(values); }
  void push(Index row, Index col, T value) {
    row_idx.push_back(row);
    col_idx.push_back(col);
    values.push_back(value);
  }
};

/// Compressed sparse rows, owning. Canonical form, which every function here returns and every stage may rely
/// on: columns strictly ascending within a row (so no entry repeats) and inside [0, cols). Explicit zeros may
/// be stored.
template <class T>
struct Csr {
  Index rows = 0, cols = 0;
  Buffer<Offset> row_ptr = Buffer<Offset>(1, 0);
  Buffer<Index> col_idx;
  Buffer<T> values;

  Csr() = default;
  /// A rows x cols matrix without non-zeros.
  Csr(Index rows_, Index cols_) : rows(rows_), cols(cols_), row_ptr(static_cast<std::size_t>(rows_) + 1, 0) {}

  Offset nnz() const { return std::ssize(col_idx); }
  /// Room for so many entries, uninitialised where they are new.
  void resize(Offset entries) {
    col_idx.resize(static_cast<std::size_t>(entries));
    values.resize(static_cast<std::size_t>(entries));
  }
  Offset row_nnz(Index i) const {
    return row_ptr[static_cast<std::size_t>(i) + 1] - row_ptr[static_cast<std::size_t>(i)];
  }
  /// Its non-zeros; 0 without rows.
  Offset longest_row() const {
    Offset longest = 0;
    for (Index i = 0; i < rows; ++i) longest = std::max(longest, row_nnz(i));
    return longest;
  }
  CsrView<T> view() const { return {rows, cols, row_ptr.data(), col_idx.data(), values.data()}; }
};

/// Compressed sparse columns, owning: canonical as Csr, with rows strictly ascending within a column.
template <class T>
struct Csc {
  Index rows = 0, cols = 0;
  Buffer<Offset> col_ptr = Buffer<Offset>(1, 0);
  Buffer<Index> row_idx;
  Buffer<T> values;
};

/// A dense matrix, owning. The elements between the used part of a line and its leading dimension are
/// padding: they belong to the array, and nothing may write them.
template <class T>
struct Dense {
  Index rows = 0, cols = 0;
  Offset ld = 0;
  Layout layout = Layout::row_major;
  Buffer<T> data;

  Dense() = default;
  /// A rows x cols matrix of uninitialised elements. `ld_` = 0 means no padding. Throws Error if ld_ is too
  /// small.
  Dense(Index rows_, Index cols_, Layout layout_ = Layout::row_major, Offset ld_ = 0);

  /// How many elements an array of this shape has.
  static Offset elements(Index rows, Index cols, Layout layout, Offset ld) {
    return (layout == Layout::row_major ? rows : cols) * ld;
  }
  DenseView<T> view() { return {rows, cols, ld, layout, data.data()}; }
  DenseView<const T> view() const { return {rows, cols, ld, layout, data.data()}; }
  T& operator()(Index i, Index j) { return view()(i, j); }
  const T& operator()(Index i, Index j) const { return view()(i, j); }
};

/// The non-zeros of row i, as spans.
template <class T>
std::span<const Index> row_columns(const Csr<T>& a, Index i) {
  return std::span(a.col_idx).subspan(static_cast<std::size_t>(a.row_ptr[static_cast<std::size_t>(i)]),
                                      static_cast<std::size_t>(a.row_nnz(i)));
}
template <class T>
std::span<const T> row_values(const Csr<T>& a, Index i) {
  return std::span(a.values).subspan(static_cast<std::size_t>(a.row_ptr[static_cast<std::size_t>(i)]),
                                     static_cast<std::size_t>(a.row_nnz(i)));
}

extern template struct Dense<float>;
extern template struct Dense<double>;

}  // namespace stages
