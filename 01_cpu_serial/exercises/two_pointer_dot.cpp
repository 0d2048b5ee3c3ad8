// Task: find the fault in the sparse dot products, and mend it: C = A B, every row meets every column.
// Reference: 01_cpu_serial/two_pointer_dot
//
// A lies by rows, B by columns, both sorted. Two pointers walk along a row and a column; the one that stands
// at the smaller index steps, and where the indices agree there is a product. The code gives right results on
// many matrices. The original of this step had the same fault, and nobody saw it for as long as its input did
// not change.
//
// Say before you run it: on which matrices must it go wrong, and on which can it not?

#include "common/kernels/columns.hpp"
#include "micro/row_spgemm.hpp"

namespace stages {
namespace {

template <class T>
class MyDots final : public micro::RowSpgemm<T> {
 public:
  MyDots(const SpgemmProblem<T>& problem, Exec& exec)
      : micro::RowSpgemm<T>(problem, exec), columns_(kernels::columns_of(problem.b->view())) {}

 private:
  void row(Index i, Csr<T>& c) override {
    for (Index j = 0; j < c.cols; ++j) {
      T sum = 0;
      if (!dot(i, j, sum)) continue;
      c.col_idx.push_back(j);
      c.values.push_back(sum);
    }
  }

  /// Whether row i of A and column j of B meet, and the sum of their products.
  bool dot(Index i, Index j, T& sum) const {
    const CsrView<T>& a = this->a();
    const T* const b_values = this->b().values;
    Offset p = a.row_ptr[i], q = columns_.col_ptr[static_cast<std::size_t>(j)];
    const Offset p_end = a.row_ptr[i + 1], q_end = columns_.col_ptr[static_cast<std::size_t>(j) + 1];
    bool met = false;
    while (p < p_end && q < q_end) {
      // SOLUTION
      while (p < p_end && a.col_idx[p] < row_of(q)) ++p;
      if (p == p_end) break;
      // STUDENT
      while (a.col_idx[p] < row_of(q)) ++p;
      // END
      if (a.col_idx[p] == row_of(q)) {
        sum += a.values[p] * b_values[columns_.source[static_cast<std::size_t>(q)]];
        met = true;
      }
      ++q;
    }
    return met;
  }

  Index row_of(Offset q) const { return columns_.row_idx[static_cast<std::size_t>(q)]; }

  kernels::Columns columns_;  // of B
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<MyDots>({.name = "task/two_pointer_dot", .idea = "every row of A meets every column of B"});
}

}  // namespace stages
