#pragma once
// Orders of the rows of a matrix, for products in which each non-zero asks for a row of B: rows that ask for
// the same rows of B should come soon after each other, so that they find them in a cache.

#include <algorithm>
#include <span>
#include <vector>

#include "common/matrix/types.hpp"

namespace stages::spmm {

/// The rows of a matrix by the communities that they form with its columns: place k holds row order[k]. Any
/// shape; nothing is asked of the matrix but to be canonical. One thread; the same matrix gives the same
/// order everywhere. Time: a few passes over the non-zeros, at random places; memory: some 16 to 40 bytes a
/// non-zero and 100 a row and column.
std::vector<Index> community_order(Index cols, std::span<const Offset> row_ptr,
                                   std::span<const Index> col_idx);

/// The rows by their lengths, the longest first, those of one length as they lie: as above.
std::vector<Index> length_order(std::span<const Offset> row_ptr);

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

/// How local a matrix is in an order of its rows, without a GPU: the non-zeros are cut into windows of so
/// many, in that order, and this is the share of them that ask for a row of B for which no non-zero of their
/// window has asked before. 1: no row of B is ever asked for twice. It does not depend on how columns are
/// numbered. 0 for a matrix without non-zeros.
double fresh_share(Index cols, std::span<const Offset> row_ptr, std::span<const Index> col_idx,
                   std::span<const Index> order, Offset window);

}  // namespace stages::spmm
