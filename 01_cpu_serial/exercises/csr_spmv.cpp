// Task: fill in the product of a row, so that y = A x for a matrix in CSR.
// Reference: 01_cpu_serial/csr_spmv
//
// Row i of A is what stands at the places row_ptr[i] .. row_ptr[i + 1] - 1 of col_idx and values: the columns
// of its non-zeros, and the non-zeros. A row without non-zeros is a row too, and its y is 0.
//
// Before you write: how many bytes does the loop read and write for each non-zero, and how many for each row?

#include "common/harness/plan.hpp"
#include "common/harness/registry.hpp"

namespace stages {
namespace {

template <class T>
class MySpmv final : public HostSpmvPlan<T> {
 public:
  MySpmv(const SpmvProblem<T>& problem, Exec& /*exec*/) : HostSpmvPlan<T>(problem) {}

 protected:
  void product(const T* x, T* y) override {
    const CsrView<T> a = this->a().view();
    for (Index i = 0; i < a.rows; ++i) {
      // SOLUTION
      T sum = 0;
      for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) sum += a.values[p] * x[a.col_idx[p]];
      y[i] = sum;
      // STUDENT
      // Your code: the sum over the non-zeros of row i, into y[i].
      static_cast<void>(x);
      static_cast<void>(y);
      // END
    }
  }
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<MySpmv>({.name = "task/csr_spmv", .idea = "row by row over the non-zeros"});
}

}  // namespace stages
