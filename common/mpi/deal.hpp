#pragma once
// Dealing rows to ranks. Always whole rows, always contiguous: a row that is cut in two would appear twice in
// the result, and neighbouring rows tend to need the same rows of B.

#include <mpi.h>

#include <span>
#include <vector>

#include "common/matrix/types.hpp"

namespace stages::mpi {

/// bounds[r] is the first row of rank r, bounds[ranks] the number of rows. Rows may be fewer than ranks: some
/// get none.
using RowBounds = std::vector<Index>;

/// Deals the rows so that each rank's weights sum to about the same. `before[i]` is the weight of the rows
/// before row i: rows + 1 numbers, ascending from 0, such as the row pointers of a matrix. Without any weight
/// the rows are dealt evenly.
RowBounds deal(std::span<const Offset> before, int ranks);

/// How many elements of a dense matrix lie before each of these rows.
std::vector<Offset> elements_before(const RowBounds& rows, Index columns);

/// before[i] = multiplications of the rows before row i of A B, plus `per_row` for each of these rows.
template <class T>
std::vector<Offset> products_before(const Csr<T>& a, const Csr<T>& b, Offset per_row);

/// `before` where the rows of share r turned out to take seconds[r]: each row's weight, now in picoseconds,
/// is its part of that. Within a share the rows keep their proportions, between shares the clock decides.
std::vector<Offset> reweighed(std::span<const Offset> before, const RowBounds& bounds,
                              std::span<const double> seconds);

/// The largest share over the mean share, of weights dealt by `bounds`; 1 where there is no weight.
double imbalance(std::span<const Offset> before, const RowBounds& bounds);

/// The bounds of rank 0, on all ranks.
RowBounds shared_bounds(RowBounds bounds, MPI_Comm comm);

}  // namespace stages::mpi
