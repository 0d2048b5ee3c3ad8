#pragma once
// Rows of C = A B by sparse dot products, as 01_cpu_serial/4_two_pointer_dot.cpp makes them, for
// 1_scatter_gather.cpp and 9_columns_of_b.cpp. C grows as it is made.

#include <algorithm>

#include "common/kernels/columns.hpp"

namespace stages {

/// Whether row i of A and column j of B meet, and the sum of their products.
template <class T>
bool dot(const CsrView<T>& a, Index i, const kernels::Columns& columns, const T* b_values, Index j, T& sum) {
  const Index* const row_idx = columns.row_idx.data();
  const auto column = static_cast<std::size_t>(j);
  const Offset p_end = a.row_ptr[i + 1], q_end = columns.col_ptr[column + 1];
  bool met = false;
  for (Offset p = a.row_ptr[i], q = columns.col_ptr[column]; p < p_end && q < q_end;) {
    const Index k = a.col_idx[p], l = row_idx[q];
    if (k == l) {
      sum += a.values[p] * b_values[q];
      met = true;
    }
    p += k <= l;
    q += l <= k;
  }
  return met;
}

/// C = A B, which has `cols` columns; `b_values`: in the order of `columns`.
template <class T>
void dot_rows(const CsrView<T>& a, const kernels::Columns& columns, const T* b_values, Index cols, Csr<T>& c) {
  c = Csr<T>(a.rows, cols);
  std::size_t count = 0;
  for (Index i = 0; i < a.rows; ++i) {
    const std::size_t room = count + columns.not_empty.size();
    if (room > c.values.size()) c.resize(static_cast<Offset>(std::max(room, 2 * c.values.size())));
    for (const Index j : columns.not_empty) {
      T sum{0};
      if (!dot(a, i, columns, b_values, j, sum)) continue;
      c.col_idx[count] = j;
      c.values[count++] = sum;
    }
    c.row_ptr[static_cast<std::size_t>(i) + 1] = static_cast<Offset>(count);
  }
  c.resize(static_cast<Offset>(count));
}

}  // namespace stages
