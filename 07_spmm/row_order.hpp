#pragma once
// Another order of the rows of a matrix.

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include "common/matrix/types.hpp"

namespace stages::spmm {

/// The rows by their lengths, the longest first, those of one length as they lie: place k holds row order[k].
inline std::vector<Index> length_order(std::span<const Offset> row_ptr) {
  std::vector<Index> order(row_ptr.size() - 1);
  std::iota(order.begin(), order.end(), Index{0});
  const auto length = [&](Index i) {
    return row_ptr[static_cast<std::size_t>(i) + 1] - row_ptr[static_cast<std::size_t>(i)];
  };
  std::ranges::stable_sort(order, std::greater<>(), length);
  return order;
}

/// The matrix with its rows in an order: row k of the result is row order[k] of `a`.
template <class T>
Csr<T> with_rows(const Csr<T>& a, std::span<const Index> order) {
  Csr<T> out(a.rows, a.cols);
  out.col_idx.resize(a.col_idx.size());
  out.values.resize(a.values.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    const auto to = static_cast<std::size_t>(out.row_ptr[k]);
    const auto from_columns = row_columns(a, order[k]);
    std::ranges::copy(from_columns, out.col_idx.data() + to);
    std::ranges::copy(row_values(a, order[k]), out.values.data() + to);
    out.row_ptr[k + 1] = out.row_ptr[k] + std::ssize(from_columns);
  }
  return out;
}

}  // namespace stages::spmm
