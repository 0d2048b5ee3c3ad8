#include "common/matrix/statistics.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <utility>

#include "common/matrix/convert.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/instantiate.hpp"
#include "common/matrix/parallel.hpp"

namespace stages {
namespace {

std::size_t at(Offset k) { return static_cast<std::size_t>(k); }

constexpr Offset kRowsPerBlock = 256;

/// Shortest, longest, median and Gini coefficient of the row lengths, and their histogram. Rows without
/// entries are counted only: there may be any number of them.
template <class T>
void describe_row_lengths(const Csr<T>& a, MatrixStatistics& s) {
  std::vector<Offset> lengths;  // but for those that are 0, in ascending order
  for (Index i = 0; i < a.rows; ++i) {
    const Offset length = a.row_nnz(i);
    if (length == 0) continue;
    const auto place = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(length)));
    if (s.row_length_histogram.size() <= place) s.row_length_histogram.resize(place + 1, 0);
    ++s.row_length_histogram[place];
    lengths.push_back(length);
  }
  if (a.rows == 0) return;
  std::sort(lengths.begin(), lengths.end());
  const Offset empty = a.rows - std::ssize(lengths);
  if (s.row_length_histogram.empty()) s.row_length_histogram.resize(1, 0);
  s.row_length_histogram[0] = static_cast<Index>(empty);
  const auto length = [&](Offset k) { return k < empty ? 0 : lengths[at(k - empty)]; };
  s.empty_rows = static_cast<Index>(empty);
  s.min_row = length(0);
  s.max_row = length(a.rows - 1);
  const Index half = a.rows / 2;
  s.median_row = a.rows % 2 == 1 ? static_cast<double>(length(half))
                                 : 0.5 * static_cast<double>(length(half - 1) + length(half));
  s.mean_row = static_cast<double>(s.nnz) / s.rows;
  if (s.nnz == 0) return;
  // Gini = sum over ascending lengths x_i (i = 1 .. n) of (2 i - n - 1) x_i, over n times their sum.
  double weighted = 0;
  for (Offset k = empty; k < a.rows; ++k)
    weighted += (2.0 * static_cast<double>(k + 1) - s.rows - 1.0) * static_cast<double>(length(k));
  s.gini = weighted / (static_cast<double>(s.rows) * static_cast<double>(s.nnz));
}

/// What is told by each entry alone: bandwidths, the diagonal, zeros and values that are not finite.
template <class T>
void describe_entries(const Csr<T>& a, MatrixStatistics& s) {
  for (Index i = 0; i < a.rows; ++i) {
    const auto columns = row_columns(a, i);
    if (columns.empty()) continue;
    s.lower_bandwidth = std::max(s.lower_bandwidth, i - columns.front());
    s.upper_bandwidth = std::max(s.upper_bandwidth, columns.back() - i);
    if (std::binary_search(columns.begin(), columns.end(), i)) ++s.diagonal_entries;
    for (const T value : row_values(a, i)) {
      if (value == T{0}) ++s.explicit_zeros;
      if (!std::isfinite(value)) ++s.non_finite_values;
    }
  }
}

/// Whether so many rows or columns must be empty that numbers for each would mostly be for them.
template <class T>
bool mostly_empty(const Csr<T>& a) {
  return mostly_empty_columns(std::max(a.rows, a.cols), a.nnz());
}

/// A with its rows and columns numbered anew, without those that are empty, in their order: products with A^T
/// take the same multiplications, and those rows and columns of them that hold something are the same. Of a
/// square matrix both keep what one of them needs, so that products with itself and the diagonal are the
/// same, too.
template <class T>
Csr<T> without_empty_lines(const Csr<T>& a) {
  std::vector<Index> columns(a.col_idx.begin(), a.col_idx.end()), rows;
  for (Index i = 0; i < a.rows; ++i)
    if (a.row_nnz(i) > 0) rows.push_back(i);
  if (a.rows == a.cols) columns.insert(columns.end(), rows.begin(), rows.end());
  std::sort(columns.begin(), columns.end());
  columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
  if (a.rows == a.cols) rows = columns;
  Csr<T> packed(static_cast<Index>(rows.size()), static_cast<Index>(columns.size()));
  for (std::size_t r = 0; r < rows.size(); ++r) packed.row_ptr[r + 1] = a.row_ptr[at(rows[r]) + 1];
  packed.values = a.values;
  for (const Index j : a.col_idx)
    packed.col_idx.push_back(
        static_cast<Index>(std::lower_bound(columns.begin(), columns.end(), j) - columns.begin()));
  return packed;
}

/// Longest column and empty columns.
template <class T>
void describe_columns(const Csr<T>& a, MatrixStatistics& s) {
  std::vector<Offset> lengths(at(a.cols), 0);
  for (const Index j : a.col_idx) ++lengths[at(j)];
  for (const Offset length : lengths) {
    s.max_col = std::max(s.max_col, length);
    if (length > 0) --s.empty_cols;
  }
}

/// Walks each row of A and of A^T together: an entry that stands in both has its mirror.
template <class T>
void describe_symmetry(const Csr<T>& a, const Csr<T>& transposed, MatrixStatistics& s) {
  Offset mirrored = 0, equal = 0;
  for (Index i = 0; i < a.rows; ++i) {
    const auto row = row_columns(a, i), column = row_columns(transposed, i);
    const auto row_value = row_values(a, i), column_value = row_values(transposed, i);
    for (std::size_t k = 0, m = 0; k < row.size() && m < column.size();) {
      if (row[k] == column[m]) {
        if (row[k] != i) {
          ++mirrored;
          if (row_value[k] == column_value[m]) ++equal;
        }
        ++k, ++m;
      } else if (row[k] < column[m]) {
        ++k;
      } else {
        ++m;
      }
    }
  }
  const Offset off_diagonal = s.nnz - s.diagonal_entries;
  const auto share = [&](Offset part) {
    return off_diagonal == 0 ? 1.0 : static_cast<double>(part) / static_cast<double>(off_diagonal);
  };
  s.structural_symmetry = share(mirrored);
  s.numerical_symmetry = share(equal);
}

template <class T>
void require_factors(const Csr<T>& a, const Csr<T>& b) {
  if (a.cols != b.rows)
    fail("A is {} x {} and B is {} x {}: A * B needs as many columns of A as rows of B", a.rows, a.cols,
         b.rows, b.cols);
}

/// nnz of the rows 0, step, 2 * step, ... of C.
template <class T>
Offset count_rows(const Csr<T>& a, const Csr<T>& b, Offset step, int threads) {
  // Of each thread, for each column the last row of C that touched it: so nothing has to be cleared.
  std::vector<std::vector<Index>> last_rows(at(thread_count(threads)));
  std::atomic<Offset> total{0};
  parallel_blocks((a.rows + step - 1) / step, kRowsPerBlock, threads,
                  [&](int worker, Offset begin, Offset end) {
                    std::vector<Index>& last_row = last_rows[at(worker)];
                    last_row.resize(at(b.cols), -1);
                    Offset nnz = 0;
                    for (Offset r = begin; r < end; ++r) {
                      const auto i = static_cast<Index>(r * step);
                      for (const Index k : row_columns(a, i))
                        for (const Index j : row_columns(b, k)) nnz += std::exchange(last_row[at(j)], i) != i;
                    }
                    total += nnz;
                  });
  return total;
}

}  // namespace

template <class T>
MatrixStatistics statistics(const Csr<T>& a) {
  MatrixStatistics s;
  s.rows = a.rows;
  s.cols = a.cols;
  s.nnz = a.nnz();
  if (a.rows > 0 && a.cols > 0)
    s.density = static_cast<double>(s.nnz) / (static_cast<double>(a.rows) * static_cast<double>(a.cols));
  describe_row_lengths(a, s);
  describe_entries(a, s);
  s.empty_cols = a.cols;
  const bool few = mostly_empty(a);
  const Csr<T> packed = few ? without_empty_lines(a) : Csr<T>{};
  const Csr<T>& filled = few ? packed : a;
  describe_columns(filled, s);
  if (a.rows == a.cols) describe_symmetry(filled, transpose(filled), s);
  return s;
}

template <class T>
Buffer<Offset> spgemm_row_products(const Csr<T>& a, const Csr<T>& b) {
  require_factors(a, b);
  Buffer<Offset> products(at(a.rows));
  parallel_blocks(a.rows, kRowsPerBlock, 0, [&](int, Offset begin, Offset end) {
    for (auto i = static_cast<Index>(begin); i < end; ++i) products[at(i)] = products_of_row(a, b, i);
  });
  return products;
}

template <class T>
Offset spgemm_products(const Csr<T>& a, const Csr<T>& b) {
  require_factors(a, b);
  Offset products = 0;
  for (const Index k : a.col_idx) products += b.row_nnz(k);
  return products;
}

template <class T>
ProductCost product_cost(const Csr<T>& a, const Csr<T>& b, Offset exact_up_to, int threads) {
  ProductCost cost;
  cost.rows = a.rows;
  cost.cols = b.cols;
  const Buffer<Offset> per_row = spgemm_row_products(a, b);
  for (const Offset products : per_row) {
    cost.products += products;
    cost.max_row_products = std::max(cost.max_row_products, products);
    cost.nnz_upper_bound += std::min<Offset>(products, b.cols);
  }
  const Offset step = cost.products / std::max<Offset>(1, exact_up_to) + 1;
  cost.nnz_exact = cost.products <= exact_up_to;
  if (cost.nnz_exact) {
    cost.nnz_estimate = count_rows(a, b, 1, threads);
    return cost;
  }
  // Rows differ in length, so what the sample tells is how many of the bound's entries are really there.
  Offset sampled_bound = 0;
  for (Offset i = 0; i < a.rows; i += step) sampled_bound += std::min<Offset>(per_row[at(i)], b.cols);
  if (sampled_bound == 0) {
    cost.nnz_estimate = cost.nnz_upper_bound;
    return cost;
  }
  const double share =
      static_cast<double>(count_rows(a, b, step, threads)) / static_cast<double>(sampled_bound);
  cost.nnz_estimate = std::llround(share * static_cast<double>(cost.nnz_upper_bound));
  return cost;
}

template <class T>
SquareCost square_cost(const Csr<T>& a) {
  const bool few = mostly_empty(a);
  const Csr<T> packed = few ? without_empty_lines(a) : Csr<T>{};
  const Csr<T>& factor = few ? packed : a;
  if (a.rows == a.cols) {
    SquareCost cost{product_cost(factor, factor), false, false};
    cost.rows = cost.cols = a.rows;
    return cost;
  }
  const Csr<T> transposed = transpose(factor);
  const Offset of_rows = spgemm_products(transposed, factor), of_cols = spgemm_products(factor, transposed);
  const bool transposed_first = of_rows < of_cols;
  SquareCost cost{transposed_first ? product_cost(transposed, factor) : product_cost(factor, transposed),
                  true, transposed_first, std::max(of_rows, of_cols)};
  cost.rows = cost.cols = transposed_first ? a.cols : a.rows;
  return cost;
}

STAGES_FOR_VALUES(statistics)
STAGES_FOR_VALUES(spgemm_products)
STAGES_FOR_VALUES(spgemm_row_products)
STAGES_FOR_VALUES(product_cost)
STAGES_FOR_VALUES(square_cost)

}  // namespace stages
