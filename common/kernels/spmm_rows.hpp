// Rows of C = alpha A B + beta C, a strip of C's row in registers. The idea and what it costs are told in
// 01_cpu_serial/fast/csr_spmm.cpp.
#pragma once

#include <algorithm>
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

/// c = alpha sums + beta c for a strip of C, whose elements are `step` apart. Where beta is 0, c is not read.
template <class T, std::size_t kStrip>
inline void store_strip(const std::array<T, kStrip>& sums, T alpha, T beta, T* c, Offset step) {
  if (beta == T{0}) {
    for (std::size_t s = 0; s < kStrip; ++s) c[static_cast<Offset>(s) * step] = alpha * sums[s];
  } else {
    for (std::size_t s = 0; s < kStrip; ++s) {
      T& to = c[static_cast<Offset>(s) * step];
      to = alpha * sums[s] + beta * to;
    }
  }
}

/// How many non-zeros of A pass between asking for a row of B and adding it.
inline constexpr Offset kRowsAhead = 16;
inline constexpr std::size_t kCacheLine = 64;

/// Columns j .. j + kWidth of row i of C. kRows: B's rows are contiguous. Which row of B is next cannot be
/// guessed by the processor, so it is asked for ahead of time: measured, half of the time or less where B is
/// larger than the second-level cache.
template <int kWidth, bool kRows, class T>
void multiply_strip(const Spmm<T>& m, Index i, Index j) {
  constexpr auto kStrip = static_cast<std::size_t>(kWidth);
  const auto row = static_cast<std::size_t>(i);
  const Offset step = kRows ? 1 : m.b_strides.column;
  const Offset end = m.a.row_ptr[row + 1];
  const Offset last = m.a.nnz() - 1;
  const Index* columns = m.a.col_idx.data();
  const T* values = m.a.values.data();
  const T* b = m.b + j * step;
  std::array<T, kStrip> sums{};
  for (Offset q = m.a.row_ptr[row]; q < end; ++q) {
    if constexpr (kRows) {
      const T* ahead = b + columns[std::min(q + kRowsAhead, last)] * m.b_strides.row;
      for (std::size_t s = 0; s < kStrip; s += kCacheLine / sizeof(T)) __builtin_prefetch(ahead + s);
    }
    const T* line = b + columns[q] * m.b_strides.row;
    const T value = values[q];
    for (std::size_t s = 0; s < kStrip; ++s) sums[s] += value * line[static_cast<Offset>(s) * step];
  }
  T* c = m.c + i * m.c_strides.row + j * m.c_strides.column;
  // A stride that is known to be 1 lets whole registers be stored.
  m.c_strides.column == 1 ? store_strip(sums, m.alpha, m.beta, c, Offset{1})
                          : store_strip(sums, m.alpha, m.beta, c, m.c_strides.column);
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
