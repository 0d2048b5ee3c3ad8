// SpGEMM by sparse dot products, A by rows, B by columns, two pointers: a wrong turn.
//
// The idea is the definition: C(i, j) is the dot product of row i of A and column j of B. Both are sorted, so
// two pointers walk along them, the one with the smaller index steps, and where the indices agree there is a
// product. C comes out row by row and sorted. Empty rows of A and empty columns of B are left out.
//
// What it costs: a meeting of a row and a column takes up to len(row) + len(column) steps whether or not it
// finds anything: rows x nnz(B) + columns of B in use x nnz(A) in all. The project's B has 46,796 non-zeros in
// 511 of its 8191 columns, and A has 784,379 in 8191 rows: 7.8e8 steps, for 4.5e6 products.
//
// The original course code had this method with faults: its loops moved A's pointer without testing the end of
// the row, and so read on into the next row; a repeated non-zero counted once in B but added up in A (here
// nothing repeats); its conversion to columns looped over the number of rows, which is right for square
// matrices only; and it dropped positions of C whose value was zero, where here any meeting of indices counts.
//
// Input: any CSR matrices; prepare makes the columns of B, in linear time, and load brings the values into
// their order. Memory: B once more, and C at its bound, of which only what is used is ever touched.

#include "01_cpu_serial/stage.hpp"
#include "common/kernels/columns.hpp"

namespace stages {
namespace {

template <class T>
class TwoPointerDot final : public HostSpgemmPlan<T> {
 public:
  TwoPointerDot(const SpgemmProblem<T>& problem, Exec& /*exec*/)
      : HostSpgemmPlan<T>(problem),
        columns_(kernels::columns_of(problem.b->view())),
        b_values_(columns_.source.size()) {}

  static Cost cost(const SpgemmProblem<T>& problem) {
    const Csr<T>& b = *problem.b;
    return problem_cost(problem)
        .with_work(kernels::sparse_dot_steps(*problem.a, b))
        .plus_memory(static_cast<double>(b.nnz()) * (sizeof(Index) + sizeof(Offset) + sizeof(T)) +
                     static_cast<double>(b.cols) * (2 * sizeof(Offset) + sizeof(Index)));
  }

  void load(const SpgemmOperands<T>& operands) override {
    HostSpgemmPlan<T>::load(operands);
    for (std::size_t t = 0; t < b_values_.size(); ++t)
      b_values_[t] = operands.b_values[static_cast<std::size_t>(columns_.source[t])];
  }

  void run() override {
    const CsrView<T>& a = this->a();
    Csr<T>& c = this->c_;
    c = Csr<T>(a.rows, this->b().cols);
    c.col_idx.resize(static_cast<std::size_t>(this->problem().result_bound));
    c.values.resize(c.col_idx.size());
    const Index* const row_idx = columns_.row_idx.data();
    std::size_t count = 0;
    for (std::size_t i = 0; i < c.row_ptr.size() - 1; ++i) {
      c.row_ptr[i + 1] = static_cast<Offset>(count);
      if (a.row_ptr[i] == a.row_ptr[i + 1]) continue;
      for (const Index j : columns_.not_empty) {
        Offset p = a.row_ptr[i], q = columns_.col_ptr[static_cast<std::size_t>(j)];
        const Offset p_end = a.row_ptr[i + 1], q_end = columns_.col_ptr[static_cast<std::size_t>(j) + 1];
        T sum{0};
        bool met = false;
        while (p < p_end && q < q_end) {
          const Index k = a.col_idx[p], l = row_idx[q];
          if (k == l) {
            sum += a.values[p] * b_values_.data()[q];
            met = true;
          }
          p += k <= l;
          q += l <= k;
        }
        if (!met) continue;
        c.col_idx[count] = j;
        c.values[count++] = sum;
      }
      c.row_ptr[i + 1] = static_cast<Offset>(count);
    }
    c.col_idx.resize(count);
    c.values.resize(count);
  }

 private:
  kernels::Columns columns_;
  Buffer<T> b_values_;  // by columns
};

}  // namespace

void cpu_serial::add_two_pointer_dot(Registry& registry) {
  registry.add<TwoPointerDot>(
      {.name = "01_cpu_serial/two_pointer_dot",
       .idea = "a wrong turn: every row of A meets every column of B, two pointers walk along"});
}

}  // namespace stages
