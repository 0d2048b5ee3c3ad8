#pragma once
// Conversions between the forms. They are linear-time counting sorts, O(nnz + rows + cols); from triplets by
// row, and each row is then sorted by column. Right for rectangular matrices, empty rows and columns. Policy
// for repeated entries: they are summed, in the order in which they stand in the input; a sum that comes out
// as zero stays as an explicit zero. Where one asks for it the last of them is kept.

#include <algorithm>

#include "common/matrix/types.hpp"

namespace stages {

/// Whether so many columns must be empty that a counter for each would mostly be for them.
inline bool mostly_empty_columns(Index cols, Offset nnz) { return cols > 2 * std::max<Offset>(nnz, 1024); }

enum class Repeats { add, keep_last };

/// The canonical Csr of `a`: of its own arrays where all is in order; else it takes room for them, and for the
/// longest row, once more. Throws Error if an index lies outside the matrix.
template <class T>
Csr<T> to_csr(Coo<T> a, Repeats repeats = Repeats::add);

/// The same matrix by columns.
template <class T>
Csc<T> to_csc(const Csr<T>& a);

/// A^T, cols x rows.
template <class T>
Csr<T> transpose(const Csr<T>& a);

/// Every element of `a` written out, zeros included; what lies between rows or columns where `ld` is more
/// than their length is zero, too. `ld` = 0 means no padding. Throws Error if the elements cannot be counted
/// in 63 bits.
template <class T>
Dense<T> to_dense(const Csr<T>& a, Layout layout = Layout::row_major, Offset ld = 0);

/// The elements of `a` that are not zero.
template <class T>
Csr<T> to_csr(const Dense<T>& a);

/// The same structure with values of another type.
template <class To, class From>
Csr<To> convert_values(const Csr<From>& a) {
  Csr<To> out;
  out.rows = a.rows;
  out.cols = a.cols;
  out.row_ptr = a.row_ptr;
  out.col_idx = a.col_idx;
  out.values.resize(a.values.size());
  for (std::size_t k = 0; k < a.values.size(); ++k) out.values[k] = static_cast<To>(a.values[k]);
  return out;
}

/// Throws Error, naming `name` and the first offence, unless `a` is canonical: arrays of the right lengths,
/// row_ptr ascending from 0 to nnz, columns in range and strictly ascending within each row.
template <class T>
void require_canonical(const Csr<T>& a, const char* name);

}  // namespace stages
