// B by columns, as sparse dot products want it, and such a product (01_cpu_serial/4_two_pointer_dot.cpp).
#pragma once

#include <algorithm>
#include <vector>

#include "common/matrix/types.hpp"

namespace stages::kernels {

/// B by columns, without its values: position t is position source[t] of B by rows.
struct Columns {
  Buffer<Offset> col_ptr;
  Buffer<Index> row_idx;
  Buffer<Offset> source;
  Buffer<Index> not_empty;
};

template <class T>
Columns columns_of(const CsrView<T>& b) {
  Columns columns;
  const auto cols = static_cast<std::size_t>(b.cols), nnz = static_cast<std::size_t>(b.row_ptr[b.rows]);
  columns.col_ptr.resize(cols + 1, 0);
  columns.row_idx.resize(nnz);
  columns.source.resize(nnz);
  for (std::size_t q = 0; q < nnz; ++q) ++columns.col_ptr[static_cast<std::size_t>(b.col_idx[q]) + 1];
  for (std::size_t j = 0; j < cols; ++j) {
    if (columns.col_ptr[j + 1] > 0) columns.not_empty.push_back(static_cast<Index>(j));
    columns.col_ptr[j + 1] += columns.col_ptr[j];
  }
  Buffer<Offset> next(columns.col_ptr.begin(), columns.col_ptr.end() - 1);
  for (Index k = 0; k < b.rows; ++k) {
    for (Offset q = b.row_ptr[k]; q < b.row_ptr[k + 1]; ++q) {
      const auto j = static_cast<std::size_t>(b.col_idx[q]);
      const auto t = static_cast<std::size_t>(next[j]++);
      columns.row_idx[t] = k;
      columns.source[t] = q;
    }
  }
  return columns;
}

/// A sorted sparse vector.
template <class T>
struct SparseVector {
  const Index* indices;
  const T* values;
  Offset length;
};

/// Adds the products of `u` and `v` to `sum`; false if their indices never agree.
template <class T>
bool dot(const SparseVector<T>& u, const SparseVector<T>& v, T& sum) {
  bool met = false;
  Offset p = 0, q = 0;
  while (p < u.length && q < v.length) {
    const Index k = u.indices[p], l = v.indices[q];
    if (k == l) {
      sum += u.values[p] * v.values[q];
      met = true;
    }
    p += k <= l;
    q += l <= k;
  }
  return met;
}

/// Steps of all dot products of rows of A and columns of B: each row that is not empty meets each such
/// column.
template <class T>
double sparse_dot_steps(const Csr<T>& a, const Csr<T>& b) {
  std::vector<bool> seen(static_cast<std::size_t>(b.cols), false);
  for (const Index j : b.col_idx) seen[static_cast<std::size_t>(j)] = true;
  const auto columns = static_cast<double>(std::count(seen.begin(), seen.end(), true));
  double rows = 0;
  for (Index i = 0; i < a.rows; ++i) rows += a.row_nnz(i) > 0;
  return rows * static_cast<double>(b.nnz()) + columns * static_cast<double>(a.nnz());
}

}  // namespace stages::kernels
