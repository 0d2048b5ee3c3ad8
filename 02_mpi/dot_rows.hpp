#pragma once
// Rows of C = A B by sparse dot products, as 01_cpu_serial/4_two_pointer_dot.cpp makes them, for
// 1_scatter_gather.cpp and 9_columns_of_b.cpp. C grows as it is made.

#include <algorithm>

#include "common/kernels/columns.hpp"

namespace stages {

/// C = A B, which has `cols` columns; `b_values`: in the order of `columns`.
template <class T>
void dot_rows(const CsrView<T>& a, const kernels::Columns& columns, const T* b_values, Index cols,
              Csr<T>& c) {
  c = Csr<T>(a.rows, cols);
  std::size_t count = 0;
  for (Index i = 0; i < a.rows; ++i) {
    c.row_ptr[static_cast<std::size_t>(i) + 1] = static_cast<Offset>(count);
    if (a.row_ptr[i] == a.row_ptr[i + 1]) continue;
    const std::size_t room = count + columns.not_empty.size();
    if (room > c.values.size()) c.resize(static_cast<Offset>(std::max(room, 2 * c.values.size())));
    const Offset begin = a.row_ptr[i];
    const kernels::SparseVector<T> row{a.col_idx + begin, a.values + begin, a.row_ptr[i + 1] - begin};
    for (const Index j : columns.not_empty) {
      const auto column = static_cast<std::size_t>(j);
      const Offset first = columns.col_ptr[column], length = columns.col_ptr[column + 1] - first;
      T sum{0};
      if (!kernels::dot<T>(row, {columns.row_idx.data() + first, b_values + first, length}, sum)) continue;
      c.col_idx[count] = j;
      c.values[count++] = sum;
    }
    c.row_ptr[static_cast<std::size_t>(i) + 1] = static_cast<Offset>(count);
  }
  c.resize(static_cast<Offset>(count));
}

}  // namespace stages
