// SpMM: CSR times a dense matrix B with a few columns, one row of B after the other.
//
// The idea: where 2_csr_spmv_plain.cpp multiplies a non-zero by one element of x, this multiplies it by a
// whole row of B: C(i, :) += A(i, k) * B(k, :). A is read once for all columns, and a row of B is one piece
// of memory if B is row-major, so the inner loop has no look-up and the compiler makes vector instructions
// of it.
//
// What it pays: row i of C is the sum, and it lies in memory. Every non-zero loads and stores all of it,
// which is twice as much as it loads of B. (fast/csr_spmm.cpp keeps a strip of it in registers.)
//
// Input: any CSR matrix, any number of columns, alpha, beta, layouts and leading dimensions. Cost: nnz x
// n_cols multiplications. Where beta is 0, C is not read before it is written, whatever it holds.

#include "01_cpu_serial/stage.hpp"

namespace stages {
namespace {

template <class T>
class CsrSpmmPlain final : public HostSpmmPlan<T> {
 public:
  CsrSpmmPlain(const SpmmProblem<T>& problem, Exec& /*exec*/) : HostSpmmPlan<T>(problem) {}

  void run() override {
    const CsrView<T> a = this->a().view();
    const DenseView<const T> b = this->b();
    const DenseView<T> c = this->c();
    const T alpha = this->problem().alpha, beta = this->problem().beta;
    for (Index i = 0; i < a.rows; ++i) {
      for (Index j = 0; j < c.cols; ++j) c(i, j) = beta == T{0} ? T{0} : beta * c(i, j);
      for (Offset q = a.row_ptr[i]; q < a.row_ptr[i + 1]; ++q) {
        const Index k = a.col_idx[q];
        const T factor = alpha * a.values[q];
        for (Index j = 0; j < c.cols; ++j) c(i, j) += factor * b(k, j);
      }
    }
  }
};

}  // namespace

void cpu_serial::add_csr_spmm_plain(Registry& registry) {
  registry.add<CsrSpmmPlain>({.name = "01_cpu_serial/csr_spmm_plain",
                              .idea = "each non-zero adds a multiple of a row of B to a row of C"});
}

}  // namespace stages
