// Rows of C = alpha A B + beta C, a strip of C's row in registers. The idea and what it costs are told in
// 01_cpu_serial/csr_spmm.cpp.
#pragma once

#include <array>

#include "common/matrix/types.hpp"

namespace stages::kernels {

/// Where element (i, j) of a dense matrix lies: i * row + j * column.
struct Strides {
  Offset row = 0;
  Offset column = 0;
};

template <class T>
Strides strides_of(const DenseView<T>& m) {
  return m.layout == Layout::row_major ? Strides{m.ld, 1} : Strides{1, m.ld};
}

/// One product, its operands as the strips see them.
template <class T>
struct Spmm {
  const Csr<T>& a;
  const T* b;
  Strides b_strides;
  T* c;
  Strides c_strides;
  T alpha;
  T beta;
};

/// Columns j .. j + kWidth of row i of C. kRows: B's rows are contiguous.
template <int kWidth, bool kRows, class T>
void multiply_strip(const Spmm<T>& m, Index i, Index j) {
  constexpr auto kStrip = static_cast<std::size_t>(kWidth);
  const auto row = static_cast<std::size_t>(i);
  const Offset step = kRows ? 1 : m.b_strides.column;
  const Offset end = m.a.row_ptr[row + 1];
  const Index* columns = m.a.col_idx.data();
  const T* values = m.a.values.data();
  const T* b = m.b + j * step;
  std::array<T, kStrip> sums{};
  for (Offset q = m.a.row_ptr[row]; q < end; ++q) {
    const T* line = b + columns[q] * m.b_strides.row;
    const T value = values[q];
    for (std::size_t s = 0; s < kStrip; ++s) sums[s] += value * line[static_cast<Offset>(s) * step];
  }
  T* c = m.c + i * m.c_strides.row + j * m.c_strides.column;
  for (std::size_t s = 0; s < kStrip; ++s) {
    T& to = c[static_cast<Offset>(s) * m.c_strides.column];
    to = m.beta == T{0} ? m.alpha * sums[s] : m.alpha * sums[s] + m.beta * to;
  }
}

/// Row i of C from column j on: as many strips of kWidth as fit, then narrower ones.
template <int kWidth, bool kRows, class T>
void multiply_row(const Spmm<T>& m, Index i, Index j, Index n_cols) {
  for (; j + kWidth <= n_cols; j += kWidth) multiply_strip<kWidth, kRows>(m, i, j);
  if constexpr (kWidth > 1) {
    if (j < n_cols) multiply_row<kWidth / 2, kRows>(m, i, j, n_cols);
  }
}

}  // namespace stages::kernels
