// SpMV in CSR: only the non-zeros, row by row.
//
// The idea: CSR (compressed sparse rows) keeps three arrays. `values` holds the non-zeros row after row,
// `col_idx` the column of each, and `row_ptr` says where each row begins. Row i is what stands at the
// positions row_ptr[i] .. row_ptr[i + 1] - 1. So the inner loop of 1_dense_spmv_plain.cpp runs over these
// positions instead of all columns, and the column, which was the loop's counter, is now loaded:
// x[col_idx[q]].
//
// What it gains: no product with zero. What it pays: 4 bytes more for each non-zero, and a load from x at a
// place that is known only when the column has been loaded.
//
// Input: any CSR matrix. Cost: nnz multiplications. From memory: nnz x (4 + sizeof(T)) bytes of A, 8 bytes of
// row_ptr and sizeof(T) of y for each row, and of x what its columns name. Two things are left to gain, and
// fast/csr_spmv.cpp gains them: every addition waits for the last, and the end of a short row is mispredicted.

#include "01_cpu_serial/stage.hpp"

namespace stages {
namespace {

template <class T>
class CsrSpmvPlain final : public HostSpmvPlan<T> {
 public:
  CsrSpmvPlain(const SpmvProblem<T>& problem, Exec& /*exec*/) : HostSpmvPlan<T>(problem) {}

 private:
  void product(const T* x, T* y) override {
    const CsrView<T> a = this->a().view();
    for (Index i = 0; i < a.rows; ++i) {
      T sum = 0;
      for (Offset q = a.row_ptr[i]; q < a.row_ptr[i + 1]; ++q) sum += a.values[q] * x[a.col_idx[q]];
      y[i] = sum;
    }
  }
};

}  // namespace

void cpu_serial::add_csr_spmv_plain(Registry& registry) {
  registry.add<CsrSpmvPlain>({.name = "01_cpu_serial/csr_spmv_plain",
                              .idea = "row by row over the non-zeros, one sum",
                              .previous = "dense_spmv_plain"});
}

}  // namespace stages
