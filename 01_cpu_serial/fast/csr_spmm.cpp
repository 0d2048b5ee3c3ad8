// For experts. SpMM: CSR times a dense matrix, with a strip of C's row in registers.
//
// The idea: row i of C is the sum of A(i, k) * B(k, :) over the row's non-zeros. Done one non-zero at a time
// over the whole row, each non-zero loads and stores all of C's row, and these outnumber the multiplications.
// Here a strip of up to 32 columns of C stays in registers while all non-zeros of the row pass by, and is
// written once. The width is a template parameter, so the strip is a handful of vector registers and the
// inner loop is a multiply-add each; what is left over when 32 do not fit goes by strips of 16, 8, 4, 2
// and 1. A's row is read again for each strip, from the cache.
//
// Layouts: with B in row-major form the strip reads B(k, j .. j + width) as one piece, which is what makes it
// fast; B in column-major form works with the same code and loads element by element, in strips of at most 8,
// for its lines are far apart. C is written once an element and its layout hardly matters.
//
// Input: any CSR matrix, any number of columns, alpha, beta, leading dimensions. Cost: nnz x n_cols
// multiplications; every non-zero of A reads n_cols elements of B, from the cache where B or its often-used
// rows fit into it. Where beta is 0, C is not read, whatever it holds.
//
// The kernel is in common/kernels/spmm_rows.hpp, because step 2 runs it on every rank.

#include "01_cpu_serial/stage.hpp"
#include "common/kernels/spmm_rows.hpp"

namespace stages {
namespace {

template <class T>
class CsrSpmm final : public HostSpmmPlan<T> {
 public:
  CsrSpmm(const SpmmProblem<T>& problem, Exec& /*exec*/) : HostSpmmPlan<T>(problem) {}

  void run() override {
    const SpmmProblem<T>& problem = this->problem();
    const auto b = this->b();
    const auto c = this->c();
    const kernels::Spmm<T> m{
        this->a(),     b.data,      kernels::strides_of(b), c.data, kernels::strides_of(c),
        problem.alpha, problem.beta};
    for (Index i = 0; i < m.a.rows; ++i) {
      if (b.layout == Layout::row_major) {
        kernels::multiply_row<32, true>(m, i, 0, problem.n_cols);
      } else {
        kernels::multiply_row<8, false>(m, i, 0, problem.n_cols);
      }
    }
  }
};

}  // namespace

void cpu_serial::add_csr_spmm(Registry& registry) {
  registry.add<CsrSpmm>({.name = "01_cpu_serial/csr_spmm",
                         .idea = "a strip of C's row stays in registers over A's row",
                         .previous = "csr_spmm_plain"});
}

}  // namespace stages
