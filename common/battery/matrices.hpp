#pragma once
// Small matrices with known structure, for tests: each a function of its arguments alone. Values are drawn from
// [-1, 1) without 0 by hashing (row, column), whatever the order in which entries are made.

#include <span>
#include <type_traits>

#include "common/matrix/types.hpp"

namespace stages::matrices {

using Matrix = Csr<double>;

/// What makes that matrix of these sizes.
template <class... Sizes>
auto of(Matrix (*make)(Sizes...), std::type_identity_t<Sizes>... sizes) {
  return [=] { return make(sizes...); };
}

/// The value that stands at (i, j).
double value_at(Index i, Index j);

Matrix empty(Index rows, Index cols);
Matrix dense(Index rows, Index cols);
Matrix identity(Index n);
/// A pseudo-random permutation: one 1 in each row and column.
Matrix permutation(Index n);
/// Entries (i, i) only; rows and cols may differ.
Matrix diagonal(Index rows, Index cols);
/// Entries with |i - j| <= half_width.
Matrix banded(Index n, Index half_width);
/// Entries with j <= i.
Matrix lower_triangle(Index n);
/// Entries with j > i: its powers become sparser, down to nothing.
Matrix upper_triangle(Index n);
/// `row_nnz` entries in each row, at pseudo-random columns: D2's kind.
Matrix equal_rows(Index rows, Index cols, Index row_nnz);
/// Row lengths between 0 and 2 * mean, pseudo-random columns.
Matrix uneven(Index rows, Index cols, Index mean);
/// As uneven, but every third row (the first and the last among them) and every fourth column is empty.
Matrix gaps(Index rows, Index cols);
/// Row i holds i entries (as many as fit): all lengths from 0 to rows - 1.
Matrix ramp(Index rows, Index cols);
/// Row i holds the first lengths[i] columns; the longest holds all that there are.
Matrix with_row_lengths(std::span<const Index> lengths);
/// One full row among rows with one entry.
Matrix dense_row(Index rows, Index cols, Index row);
/// The diagonal, and in the last row so many more entries that it has `length`.
Matrix long_row(Index n, Index length);
/// One full column among rows with one entry elsewhere.
Matrix dense_column(Index rows, Index cols, Index col);
/// Full first row, full first column, and the diagonal.
Matrix arrow(Index n);
/// A single entry.
Matrix single(Index rows, Index cols, Index i, Index j);
/// All columns that are multiples of `stride`, in each row: they collide in a hash table that takes low bits.
Matrix strided(Index rows, Index cols, Index stride);
/// As strided, but every third row has every 32nd of these columns only.
Matrix strided_thirds(Index rows, Index cols, Index stride);
/// The first row has `length` entries, spread evenly over the columns. The others have one less, neighbours,
/// one row's behind the other's, all of them between two of the first row's.
Matrix crowded(Index rows, Index cols, Index length);
/// 3 x 3 blocks along the diagonal and to the right of it.
Matrix blocks(Index block_rows);

/// uneven() made from coordinates that repeat up to three times and come in no order.
Matrix repeated_coordinates(Index rows, Index cols);
/// Coordinates whose repeats cancel: every second stored value is an explicit zero.
Matrix cancelled_coordinates(Index rows, Index cols);
/// uneven() with every third stored value set to zero.
Matrix stored_zeros(Index rows, Index cols);

}  // namespace stages::matrices
