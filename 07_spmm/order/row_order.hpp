#pragma once
// Orders of the rows of a matrix, for products in which each non-zero asks for a row of B: rows that ask for
// the same rows of B should come soon after each other, so that they find them in a cache.

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

/// How local a matrix is in an order of its rows, without a GPU: the non-zeros are cut into windows of so
/// many, in that order, and this is the share of them that ask for a row of B for which no non-zero of their
/// window has asked before. 1: no row of B is ever asked for twice. It does not depend on how columns are
/// numbered. 0 for a matrix without non-zeros.
double fresh_share(Index cols, std::span<const Offset> row_ptr, std::span<const Index> col_idx,
                   std::span<const Index> order, Offset window);

}  // namespace stages::spmm
