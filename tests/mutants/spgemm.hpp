#pragma once
// SpGEMM with one planted fault: three correct methods (fault `none`), each with the mistakes that belong to
// it.
//   FaultyGustavson   rows of B added up in an ordered map
//   FaultyDot         D1's CSR x CSC two-pointer dot, and its dense output on a grid of tiles
//   FaultyGather      D1's shares of A, multiplied apart and gathered

#include <algorithm>
#include <map>
#include <vector>

#include "common/harness/plan.hpp"
#include "common/harness/registry.hpp"
#include "common/matrix/convert.hpp"

namespace stages::mutants {

/// A row of C under construction.
template <class T>
using RowSums = std::map<Index, T>;

/// The same, in the order in which it is stored.
template <class T>
using Row = std::vector<std::pair<Index, T>>;

template <class T>
Csr<T> from_rows(const std::vector<Row<T>>& rows, Index cols) {
  Csr<T> c(static_cast<Index>(rows.size()), cols);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const auto& [column, value] : rows[i]) {
      c.col_idx.push_back(column);
      c.values.push_back(value);
    }
    c.row_ptr[i + 1] = c.nnz();
  }
  return c;
}

enum class GustavsonFault {
  none,
  null_kernel,
  lost_product,         ///< of a sum of 100,000 or more products, one is left out
  repeated_columns,     ///< the longest row's first entry stands there twice, half its value each
  ignores_loaded,       ///< multiplies the values that prepare saw
  drops_zeros,          ///< leaves out sums that are zero
  drops_small,          ///< leaves out sums that are small, under the name of dropping zeros
  skips_zero_operands,  ///< leaves out products with stored zeros
  grows,                ///< goes on from the C of the run before
  throws,
};

template <class T>
class FaultyGustavson : public HostSpgemmPlan<T> {
 public:
  FaultyGustavson(const SpgemmProblem<T>& problem, Exec& /*exec*/, GustavsonFault fault)
      : HostSpgemmPlan<T>(problem), fault_(fault) {}

  void run() override {
    using F = GustavsonFault;
    if (fault_ == F::null_kernel) return;
    if (fault_ == F::throws) throw std::bad_alloc();
    Csr<T>& c = this->c_;
    std::vector<Row<T>> rows;
    for (Index i = 0; i < this->a().rows; ++i) {
      const RowSums<T> sums = row(i);
      rows.emplace_back(sums.begin(), sums.end());
    }
    const auto longest = std::ranges::max_element(rows, {}, [](const auto& r) { return r.size(); });
    if (fault_ == F::repeated_columns && longest != rows.end() && !longest->empty()) {
      longest->front().second /= 2;
      longest->insert(longest->begin(), std::pair(longest->front()));
    }
    c = from_rows(rows, this->b().cols);
    if (fault_ == F::grows) {
      if (first_.nnz() == c.nnz())
        std::transform(c.values.begin(), c.values.end(), first_.values.begin(), c.values.begin(),
                       std::plus<T>());
      first_ = c;
    }
  }

 private:
  RowSums<T> row(Index i) const {
    using F = GustavsonFault;
    const CsrView<T>&a = this->a(), &b = this->b();
    const bool prepared = fault_ == F::ignores_loaded;
    const T* const a_values = prepared ? this->problem().a->values.data() : a.values;
    const T* const b_values = prepared ? this->problem().b->values.data() : b.values;
    RowSums<T> sums;
    const Offset n = a.row_ptr[i + 1] - a.row_ptr[i];
    for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) {
      if (fault_ == F::lost_product && n >= 100'000 && p == a.row_ptr[i] + n / 2) continue;
      for (Offset q = b.row_ptr[a.col_idx[p]]; q < b.row_ptr[a.col_idx[p] + 1]; ++q) {
        const T product = a_values[p] * b_values[q];
        if (fault_ == F::skips_zero_operands && product == T{0}) continue;
        sums[b.col_idx[q]] += product;
      }
    }
    if (fault_ == F::drops_zeros) std::erase_if(sums, [](const auto& s) { return s.second == T{0}; });
    if (fault_ == F::drops_small)
      std::erase_if(sums, [](const auto& s) { return std::abs(s.second) < T(1e-3) && s.second != T{0}; });
    return sums;
  }

  GustavsonFault fault_;
  Csr<T> first_;
};

enum class DotFault {
  none,
  overruns_row,        ///< D1 (a): A's pointer runs on into the next row
  repeat_counts_once,  ///< D1 (b): of repeated entries of B only one counts
  columns_by_rows,     ///< D1 (c): the columns of B are built by a loop over its rows
  missing_tail,        ///< D1 (d): only full tiles of 16 x 16 elements are computed
};

/// C(i, j) by merging row i of A with column j of B, into a dense array that is compacted. B is held by
/// columns with each value split into two equal halves, as a file with repeated entries gives it.
template <class T>
class FaultyDot final : public HostSpgemmPlan<T> {
 public:
  FaultyDot(const SpgemmProblem<T>& problem, Exec& /*exec*/, DotFault fault)
      : HostSpgemmPlan<T>(problem), fault_(fault) {}

  void load(const SpgemmOperands<T>& operands) override {
    HostSpgemmPlan<T>::load(operands);
    Csr<T> b = *this->problem().b;
    b.values = operands.b_values;
    b_ = halves(to_csc(b));
    if (fault_ == DotFault::columns_by_rows && b.cols > b.rows) {
      const auto rows = static_cast<std::size_t>(b.rows);
      std::fill(b_.col_ptr.begin() + b.rows + 1, b_.col_ptr.end(), b_.col_ptr[rows]);
    }
  }

  void run() override {
    const bool tiles = fault_ == DotFault::missing_tail;
    const Index rows = this->a().rows, cols = this->b().cols;
    std::vector<Row<T>> all;
    for (Index i = 0; i < rows; ++i) {
      RowSums<T> row;
      const bool row_runs = !tiles || i < rows / 16 * 16;
      for (Index j = 0; row_runs && j < (tiles ? cols / 16 * 16 : cols); ++j) dot(i, j, row);
      all.emplace_back(row.begin(), row.end());
    }
    this->c_ = from_rows(all, cols);
  }

 private:
  static Csc<T> halves(const Csc<T>& b) {
    Csc<T> out{.rows = b.rows, .cols = b.cols, .col_ptr = b.col_ptr};
    for (std::size_t k = 0; k < b.row_idx.size(); ++k) {
      out.row_idx.insert(out.row_idx.end(), 2, b.row_idx[k]);
      out.values.insert(out.values.end(), 2, b.values[k] / 2);
    }
    for (Offset& place : out.col_ptr) place *= 2;
    return out;
  }

  /// Adds the element to `row` if any product falls on it.
  void dot(Index i, Index j, RowSums<T>& row) const {
    const CsrView<T>& a = this->a();
    Offset p = a.row_ptr[i];
    const Offset p_end = a.row_ptr[fault_ == DotFault::overruns_row ? a.rows : i + 1];
    Offset q = b_.col_ptr[static_cast<std::size_t>(j)];
    const Offset q_end = b_.col_ptr[static_cast<std::size_t>(j) + 1];
    while (p < p_end && q < q_end) {
      const Index k = b_.row_idx[static_cast<std::size_t>(q)];
      if (a.col_idx[p] < k) {
        ++p;
      } else if (a.col_idx[p] > k) {
        ++q;
      } else {
        row[j] += a.values[p] * b_.values[static_cast<std::size_t>(q)];
        ++q;
        if (fault_ == DotFault::repeat_counts_once) ++p;
      }
    }
  }

  DotFault fault_;
  Csc<T> b_;
};

enum class GatherFault {
  none,
  values_over_columns,  ///< D1 (e): the values arrive in the array of column indices
  rows_cut_in_two,      ///< D1 (f): shares of equal nnz end within rows
  padded_shares,        ///< D1 (g): explicit zeros at the last corner make shares equal
};

/// A is dealt to three workers by rows, each multiplies its share, and the shares of C are put together.
template <class T>
class FaultyGather final : public HostSpgemmPlan<T> {
 public:
  FaultyGather(const SpgemmProblem<T>& problem, Exec& /*exec*/, GatherFault fault)
      : HostSpgemmPlan<T>(problem), fault_(fault) {}

  void run() override {
    std::vector<std::vector<RowSums<T>>> rows(static_cast<std::size_t>(this->a().rows));
    for (int worker = 0; worker < kWorkers; ++worker) multiply_share(worker, rows);
    std::vector<Row<T>> gathered;
    for (const auto& parts : rows) {  // one part, if rows are whole
      gathered.emplace_back();
      for (const RowSums<T>& part : parts)
        gathered.back().insert(gathered.back().end(), part.begin(), part.end());
    }
    Csr<T>& c = this->c_;
    c = from_rows(gathered, this->b().cols);
    if (fault_ == GatherFault::values_over_columns)
      for (std::size_t k = 0; k < c.values.size(); ++k) c.col_idx[k] = static_cast<Index>(c.values[k]);
  }

 private:
  static constexpr int kWorkers = 3;

  /// The positions of A that belong to a worker.
  std::pair<Offset, Offset> share(int worker) const {
    const CsrView<T>& a = this->a();
    if (fault_ == GatherFault::rows_cut_in_two) {
      const Offset nnz = a.row_ptr[a.rows];
      return {nnz * worker / kWorkers, nnz * (worker + 1) / kWorkers};
    }
    return {a.row_ptr[Offset{a.rows} * worker / kWorkers],
            a.row_ptr[Offset{a.rows} * (worker + 1) / kWorkers]};
  }

  void multiply_share(int worker, std::vector<std::vector<RowSums<T>>>& rows) const {
    const CsrView<T>& a = this->a();
    const auto [begin, end] = share(worker);
    for (Index i = 0; i < a.rows; ++i) {
      const Offset first = std::max(begin, a.row_ptr[i]), last = std::min(end, a.row_ptr[i + 1]);
      if (first >= last) continue;
      RowSums<T> sums;
      for (Offset p = first; p < last; ++p) add_row(a.col_idx[p], a.values[p], sums);
      rows[static_cast<std::size_t>(i)].push_back(std::move(sums));
    }
    if (fault_ == GatherFault::padded_shares && a.rows > 0 && a.cols > 0) {
      auto& last_row = rows.back();
      if (last_row.empty()) last_row.emplace_back();
      add_row(a.cols - 1, T{0}, last_row.back());
    }
  }

  void add_row(Index k, T factor, RowSums<T>& sums) const {
    const CsrView<T>& b = this->b();
    for (Offset q = b.row_ptr[k]; q < b.row_ptr[k + 1]; ++q) sums[b.col_idx[q]] += factor * b.values[q];
  }

  GatherFault fault_;
};

}  // namespace stages::mutants
