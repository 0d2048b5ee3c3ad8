#pragma once
// What a matrix looks like, and what it costs to multiply it: the numbers behind `stages info` and behind the
// limits of memory and work.

#include <vector>

#include "common/matrix/types.hpp"

namespace stages {

struct MatrixStatistics {
  Index rows = 0, cols = 0;
  Offset nnz = 0;
  Index empty_rows = 0, empty_cols = 0;
  Offset min_row = 0;     ///< length of the shortest row; 0 for a matrix without rows
  Offset max_row = 0;     ///< length of the longest row
  Offset max_col = 0;     ///< length of the longest column
  double mean_row = 0;    ///< nnz / rows
  double median_row = 0;  ///< of an even count of rows: the mean of the two in the middle
  double gini = 0;        ///< inequality of the row lengths: 0 all equal, near 1 a few rows hold everything
  double density = 0;     ///< nnz / (rows * cols); 0 for an empty shape

  /// How many rows have a length of 0 (first place), 1, 2-3, 4-7, ..., 2^(k-1) .. 2^k - 1 (place k). Ends
  /// with the class of the longest row.
  std::vector<Index> row_length_histogram;

  Index lower_bandwidth = 0;  ///< largest row - col over the entries, at least 0
  Index upper_bandwidth = 0;  ///< largest col - row over the entries, at least 0

  /// Share of the off-diagonal entries (i, j) whose mirror (j, i) is stored too; 1 if there are none; 0 where
  /// the matrix is not square.
  double structural_symmetry = 0;
  /// The same share for mirrors that also hold the same value.
  double numerical_symmetry = 0;

  Index diagonal_entries = 0;    ///< stored entries (i, i)
  Offset explicit_zeros = 0;     ///< stored entries with the value 0
  Offset non_finite_values = 0;  ///< stored NaN and infinities
};

/// Time in proportion to entries and rows. Memory in proportion to the entries: of a square matrix a copy by
/// columns, and nothing for rows and columns where most are empty.
template <class T>
MatrixStatistics statistics(const Csr<T>& a);

/// How many multiplications C = A * B takes: over A's entries (i, k), the length of B's row k. Throws Error
/// if A's columns are not B's rows.
template <class T>
Offset spgemm_products(const Csr<T>& a, const Csr<T>& b);

/// The same for row i of C.
template <class T>
Offset products_of_row(const Csr<T>& a, const Csr<T>& b, Index i) {
  Offset products = 0;
  for (const Index k : row_columns(a, i)) products += b.row_nnz(k);
  return products;
}

/// The same for each row of C, as many numbers as A has rows, by all processors of this process.
template <class T>
Buffer<Offset> spgemm_row_products(const Csr<T>& a, const Csr<T>& b);

/// What C = A * B costs, without multiplying.
struct ProductCost {
  Index rows = 0;  ///< of C
  Index cols = 0;  ///< of C
  Offset products = 0;
  Offset max_row_products = 0;  ///< of the row that takes most
  Offset nnz_upper_bound = 0;   ///< sum over rows of min(products of the row, columns of B)
  Offset nnz_estimate = 0;      ///< exact where `nnz_exact`, else from a sample of rows spread evenly
  bool nnz_exact = false;
  /// Products for each of them; 1 for an empty C.
  double compression() const {
    return nnz_estimate == 0 ? 1.0 : static_cast<double>(products) / static_cast<double>(nnz_estimate);
  }
};

/// The cost of A * B. If the products are at most `exact_up_to`, the structural non-zeros of C are counted (no
/// cancellation is considered); else they are estimated from rows whose products sum to about that many. Time
/// in proportion to what is counted, memory 4 bytes per column of B and thread (`threads` = 0: one per hardware
/// thread). Throws as spgemm_products does.
template <class T>
ProductCost product_cost(const Csr<T>& a, const Csr<T>& b, Offset exact_up_to = 100'000'000, int threads = 0);

/// The cost of squaring A; of a rectangular A, the cost of the cheaper of A * A^T and A^T * A.
/// `transposed_first` tells that it was A^T * A.
struct SquareCost : ProductCost {
  bool rectangular = false, transposed_first = false;
  Offset other_products = 0;  ///< of a rectangle: of the other square
};
template <class T>
SquareCost square_cost(const Csr<T>& a);

}  // namespace stages
