#include "common/battery/matrices.hpp"

#include <algorithm>
#include <set>

#include "common/matrix/convert.hpp"
#include "common/matrix/random.hpp"

namespace stages::matrices {
namespace {

/// A pseudo-random number that belongs to (i, j) and a purpose.
random::Word hash(Index i, Index j, random::Word purpose) {
  const auto place =
      (static_cast<random::Word>(static_cast<std::uint32_t>(i)) << 32U) | static_cast<std::uint32_t>(j);
  return random::Stream(purpose, place).next();
}

Index below(random::Word word, Index bound) {
  return static_cast<Index>(random::scale(word, static_cast<random::Word>(bound)));
}

/// Entry (i, j) with its value.
void put(Coo<double>& a, Index i, Index j) { a.push(i, j, value_at(i, j)); }

Coo<double> shape(Index rows, Index cols) {
  Coo<double> a;
  a.rows = rows;
  a.cols = cols;
  return a;
}

/// All entries (i, j) of a rows x cols matrix for which `is_there` holds.
template <class Test>
Matrix where(Index rows, Index cols, Test&& is_there) {
  Coo<double> a = shape(rows, cols);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) {
      if (is_there(i, j)) put(a, i, j);
    }
  }
  return to_csr(a);
}

/// As many distinct columns in row i as length(i) says, at most all.
template <class Length>
Matrix with_lengths(Index rows, Index cols, Length&& length) {
  Coo<double> a = shape(rows, cols);
  for (Index i = 0; i < rows; ++i) {
    std::set<Index> columns;
    for (Index k = 0; std::ssize(columns) < std::min<Index>(length(i), cols); ++k)
      columns.insert(below(hash(i, k, 11), cols));
    for (const Index j : columns) put(a, i, j);
  }
  return to_csr(a);
}

}  // namespace

double value_at(Index i, Index j) {
  const auto odd = static_cast<std::int32_t>(hash(i, j, 12) >> 40U) * 2 + 1 - (1 << 24);
  return static_cast<double>(odd) / (1 << 24);
}

Matrix empty(Index rows, Index cols) { return {rows, cols}; }

Matrix dense(Index rows, Index cols) {
  return where(rows, cols, [](Index, Index) { return true; });
}

Matrix identity(Index n) {
  Matrix a = diagonal(n, n);
  std::fill(a.values.begin(), a.values.end(), 1.0);
  return a;
}

Matrix permutation(Index n) {
  Coo<double> a = shape(n, n);
  const random::Permutation order(static_cast<random::Word>(std::max(n, 1)), 13);
  for (Index i = 0; i < n; ++i) a.push(i, static_cast<Index>(order(static_cast<random::Word>(i))), 1.0);
  return to_csr(a);
}

Matrix diagonal(Index rows, Index cols) {
  Coo<double> a = shape(rows, cols);
  for (Index i = 0; i < std::min(rows, cols); ++i) put(a, i, i);
  return to_csr(a);
}

Matrix banded(Index n, Index half_width) {
  return where(n, n, [&](Index i, Index j) { return std::abs(i - j) <= half_width; });
}

Matrix lower_triangle(Index n) {
  return where(n, n, [](Index i, Index j) { return j <= i; });
}

Matrix upper_triangle(Index n) {
  return where(n, n, [](Index i, Index j) { return j > i; });
}

Matrix equal_rows(Index rows, Index cols, Index row_nnz) {
  return with_lengths(rows, cols, [&](Index) { return row_nnz; });
}

Matrix uneven(Index rows, Index cols, Index mean) {
  return with_lengths(rows, cols, [&](Index i) { return below(hash(i, 0, 14), 2 * mean + 1); });
}

Matrix gaps(Index rows, Index cols) {
  return where(rows, cols, [&](Index i, Index j) {
    return i % 3 != 0 && i != rows - 1 && j % 4 != 0 && hash(i, j, 15) % 5 == 0;
  });
}

Matrix ramp(Index rows, Index cols) {
  return with_lengths(rows, cols, [](Index i) { return i; });
}

Matrix with_row_lengths(std::span<const Index> lengths) {
  return where(static_cast<Index>(lengths.size()), *std::ranges::max_element(lengths),
               [&](Index i, Index j) { return j < lengths[static_cast<std::size_t>(i)]; });
}

Matrix dense_row(Index rows, Index cols, Index row) {
  return where(rows, cols, [&](Index i, Index j) { return i == row || j == (7 * i + 3) % cols; });
}

Matrix long_row(Index n, Index length) {
  return where(n, n, [&](Index i, Index j) { return i == j || (i == n - 1 && j < length - 1); });
}

Matrix dense_column(Index rows, Index cols, Index col) {
  return where(rows, cols, [&](Index i, Index j) { return j == col || j == (7 * i + 3) % cols; });
}

Matrix arrow(Index n) {
  return where(n, n, [](Index i, Index j) { return i == 0 || j == 0 || i == j; });
}

Matrix single(Index rows, Index cols, Index i, Index j) {
  Coo<double> a = shape(rows, cols);
  put(a, i, j);
  return to_csr(a);
}

Matrix strided(Index rows, Index cols, Index stride) {
  Coo<double> a = shape(rows, cols);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; j += stride) put(a, i, j);
  }
  return to_csr(a);
}

Matrix strided_thirds(Index rows, Index cols, Index stride) {
  return where(rows, cols, [&](Index i, Index j) { return j % (i % 3 == 2 ? 32 * stride : stride) == 0; });
}

Matrix crowded(Index rows, Index cols, Index length) {
  Coo<double> a = shape(rows, cols);
  const Index gap = cols / length, middle = length / 2 * gap + 1;
  for (Index k = 0; k < length; ++k) put(a, 0, k * gap);
  for (Index i = 1; i < rows; ++i) {
    for (Index k = 0; k < length - 1; ++k) put(a, i, middle + (i - 1) * (length - 1) + k);
  }
  return to_csr(a);
}

Matrix blocks(Index block_rows) {
  return where(3 * block_rows, 3 * block_rows,
               [](Index i, Index j) { return j / 3 == i / 3 || j / 3 == i / 3 + 1; });
}

Matrix repeated_coordinates(Index rows, Index cols) {
  const Matrix base = uneven(rows, cols, 4);
  Coo<double> a = shape(rows, cols);
  for (random::Word copy = 0; copy < 3; ++copy) {
    for (Index k = rows - 1; k >= 0; --k) {
      const Index i = (k * 7 + static_cast<Index>(copy)) % rows;  // each row once if 7 does not divide rows
      for (const Index j : row_columns(base, i)) {
        if (copy == 0 || hash(i, j, 16 + copy) % 3 == 0)
          a.push(i, j, value_at(i, j + static_cast<Index>(copy)));
      }
    }
  }
  return to_csr(a);
}

Matrix cancelled_coordinates(Index rows, Index cols) {
  const Matrix base = uneven(rows, cols, 4);
  Coo<double> a = shape(rows, cols);
  for (Index i = 0; i < rows; ++i) {
    for (const Index j : row_columns(base, i)) {
      put(a, i, j);
      if ((i + j) % 2 == 0) a.push(i, j, -value_at(i, j));
    }
  }
  return to_csr(a);
}

Matrix stored_zeros(Index rows, Index cols) {
  Matrix a = uneven(rows, cols, 4);
  for (std::size_t k = 0; k < a.values.size(); k += 3) a.values[k] = 0;
  return a;
}

}  // namespace stages::matrices
