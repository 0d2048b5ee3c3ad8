#pragma once
// What the forms without row pointers require: the same number of non-zeros in each row.

#include <optional>
#include <string>

#include "common/matrix/error.hpp"
#include "common/matrix/types.hpp"

namespace stages {

/// Non-zeros of a row of `a`, whose rows are equally long; 0 without rows.
template <class T>
Offset equal_row_length(const Csr<T>& a) {
  return a.rows == 0 ? 0 : a.row_nnz(0);
}

/// Names the first row of `a` that is not as long as row 0; nothing where all are.
template <class T>
std::optional<std::string> uneven_rows(const Csr<T>& a) {
  for (Index i = 1; i < a.rows; ++i) {
    if (a.row_nnz(i) != a.row_nnz(0)) {
      return fmt::format("needs equally many non-zeros in each row; row 0 has {} and row {} has {}",
                         a.row_nnz(0), i, a.row_nnz(i));
    }
  }
  return std::nullopt;
}

}  // namespace stages
