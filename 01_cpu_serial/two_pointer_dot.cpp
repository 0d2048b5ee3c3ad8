// SpGEMM by sparse dot products: A by rows, B by columns, two pointers.
//
// The idea is the definition: C(i, j) is the dot product of row i of A and column j of B. Both are sorted, so
// two pointers walk along them, the one with the smaller index steps, and where the indices agree there is a
// product. C comes out row by row and sorted. Empty rows of A and empty columns of B are left out.
//
// What it costs: every row meets every column, and a meeting takes up to len(row) + len(column) steps whether
// or not it finds anything: rows x nnz(B) + columns x nnz(A) steps in all. On 8191 x 8191 with 784 thousand
// and 47 thousand non-zeros that is 6.8 thousand million steps for 4.5 million products.
//
// The original course code had this method with faults that are worth knowing: its loops moved A's pointer
// without testing the end of the row, and so read on into the next row; a repeated entry counted once in B
// but added up in A (here the matrices are canonical, nothing repeats); and its conversion to columns looped
// over the number of rows, which is right for square matrices only. It dropped positions of C whose value was
// zero; here a position belongs to C if any pair of indices met there.
//
// Input: any CSR matrices; prepare makes the columns of B, in linear time, and load brings the values into
// their order. Memory: B once more, and C at its bound, of which only what is used is ever touched.

#include <algorithm>

#include "01_cpu_serial/stage.hpp"

namespace stages {
namespace {

/// B by columns, without its values: position t is position source[t] of B by rows.
struct Columns {
  Buffer<Offset> col_ptr;
  Buffer<Index> row_idx;
  Buffer<Offset> source;
  Buffer<Index> not_empty;
};

template <class T>
Columns columns_of(const Csr<T>& b) {
  Columns columns;
  const auto cols = static_cast<std::size_t>(b.cols);
  columns.col_ptr.resize(cols + 1, 0);
  columns.row_idx.resize(b.col_idx.size());
  columns.source.resize(b.col_idx.size());
  for (const Index j : b.col_idx) ++columns.col_ptr[static_cast<std::size_t>(j) + 1];
  for (std::size_t j = 0; j < cols; ++j) {
    if (columns.col_ptr[j + 1] > 0) columns.not_empty.push_back(static_cast<Index>(j));
    columns.col_ptr[j + 1] += columns.col_ptr[j];
  }
  Buffer<Offset> next(columns.col_ptr.begin(), columns.col_ptr.end() - 1);
  for (Index k = 0; k < b.rows; ++k) {
    const auto row = static_cast<std::size_t>(k);
    for (Offset q = b.row_ptr[row]; q < b.row_ptr[row + 1]; ++q) {
      const auto j = static_cast<std::size_t>(b.col_idx[static_cast<std::size_t>(q)]);
      const auto t = static_cast<std::size_t>(next[j]++);
      columns.row_idx[t] = k;
      columns.source[t] = q;
    }
  }
  return columns;
}

/// A sorted sparse vector.
template <class T>
struct SparseVector {
  const Index* indices;
  const T* values;
  Offset length;
};

/// Adds the products of `u` and `v` to `sum`; false if their indices never agree.
template <class T>
bool dot(const SparseVector<T>& u, const SparseVector<T>& v, T& sum) {
  bool met = false;
  Offset p = 0, q = 0;
  while (p < u.length && q < v.length) {
    const Index k = u.indices[p], l = v.indices[q];
    if (k == l) {
      sum += u.values[p] * v.values[q];
      met = true;
    }
    p += k <= l;
    q += l <= k;
  }
  return met;
}

template <class T>
class TwoPointerDot final : public HostSpgemmPlan<T> {
 public:
  TwoPointerDot(const SpgemmProblem<T>& problem, Exec& /*exec*/)
      : HostSpgemmPlan<T>(problem), columns_(columns_of(*problem.b)), b_values_(columns_.source.size()) {}

  static Cost cost(const SpgemmProblem<T>& problem) {
    const Csr<T>&a = *problem.a, &b = *problem.b;
    std::vector<bool> seen(static_cast<std::size_t>(b.cols), false);
    for (const Index j : b.col_idx) seen[static_cast<std::size_t>(j)] = true;
    const auto columns = static_cast<double>(std::count(seen.begin(), seen.end(), true));
    double rows = 0;
    for (Index i = 0; i < a.rows; ++i) rows += a.row_nnz(i) > 0;
    Cost cost = problem_cost(problem);
    cost.work = rows * static_cast<double>(b.nnz()) + columns * static_cast<double>(a.nnz());
    cost.memory += static_cast<double>(b.nnz()) * (sizeof(Index) + sizeof(Offset) + sizeof(T)) +
                   static_cast<double>(b.cols) * (2 * sizeof(Offset) + sizeof(Index));
    return cost;
  }

  void load(const SpgemmOperands<T>& operands) override {
    HostSpgemmPlan<T>::load(operands);
    for (std::size_t t = 0; t < b_values_.size(); ++t) {
      b_values_[t] = operands.b_values[static_cast<std::size_t>(columns_.source[t])];
    }
  }

  void run() override {
    const CsrView<T>& a = this->a();
    Csr<T>& c = this->c_;
    c = Csr<T>(a.rows, this->b().cols);
    c.col_idx.resize(static_cast<std::size_t>(this->problem().result_bound));
    c.values.resize(c.col_idx.size());
    std::size_t count = 0;
    for (Index i = 0; i < a.rows; ++i) {
      const Offset first = a.row_ptr[i];
      const SparseVector<T> row{a.col_idx + first, a.values + first, a.row_ptr[i + 1] - first};
      if (row.length > 0) count = dot_row(row, count);
      c.row_ptr[static_cast<std::size_t>(i) + 1] = static_cast<Offset>(count);
    }
    c.col_idx.resize(count);
    c.values.resize(count);
  }

 private:
  /// Appends row * B to C, whose entries so far are `count`. Returns how many there are then.
  std::size_t dot_row(const SparseVector<T>& row, std::size_t count) {
    for (const Index j : columns_.not_empty) {
      const auto first = static_cast<std::size_t>(columns_.col_ptr[static_cast<std::size_t>(j)]);
      const Offset length = columns_.col_ptr[static_cast<std::size_t>(j) + 1] - static_cast<Offset>(first);
      T sum{0};
      if (!dot(row, {columns_.row_idx.data() + first, b_values_.data() + first, length}, sum)) continue;
      this->c_.col_idx[count] = j;
      this->c_.values[count++] = sum;
    }
    return count;
  }

  Columns columns_;
  Buffer<T> b_values_;  // by columns
};

}  // namespace

void add_two_pointer_dot(Registry& registry) {
  registry.add<TwoPointerDot>({.name = "01_cpu_serial/two_pointer_dot",
                               .idea = "every row of A meets every column of B, two pointers walk along"});
}

}  // namespace stages
