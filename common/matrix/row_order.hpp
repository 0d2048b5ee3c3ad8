#pragma once
// Another order of the rows of a matrix.

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include "common/matrix/types.hpp"

namespace stages {

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
  for (std::size_t k = 0; k < order.size(); ++k) out.row_ptr[k + 1] = out.row_ptr[k] + a.row_nnz(order[k]);
  out.resize(a.nnz());
  for (std::size_t k = 0; k < order.size(); ++k) {
    std::ranges::copy(row_columns(a, order[k]), out.col_idx.begin() + out.row_ptr[k]);
    std::ranges::copy(row_values(a, order[k]), out.values.begin() + out.row_ptr[k]);
  }
  return out;
}

}  // namespace stages
