#pragma once
// The frame of the micro-exercises for C = A B on one core: all but the ten lines that are the exercise.

#include "common/harness/plan.hpp"
#include "common/harness/registry.hpp"

namespace stages::micro {

/// Row by row. A derived class gives row(i, c), which appends row i of C to c.col_idx and c.values, columns
/// ascending.
template <class T>
class RowSpgemm : public HostSpgemmPlan<T> {
 public:
  RowSpgemm(const SpgemmProblem<T>& problem, Exec& /*exec*/) : HostSpgemmPlan<T>(problem) {}

  static Cost cost(const SpgemmProblem<T>& problem) { return problem_cost(problem); }

  void run() override {
    Csr<T>& c = this->c_;
    c = Csr<T>(this->a().rows, this->b().cols);
    for (Index i = 0; i < c.rows; ++i) {
      row(i, c);
      c.row_ptr[static_cast<std::size_t>(i) + 1] = c.nnz();
    }
  }

 protected:
  virtual void row(Index i, Csr<T>& c) = 0;
};

}  // namespace stages::micro
