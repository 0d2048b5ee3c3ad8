// SpMV on a matrix stored densely: the double loop with which the course begins.
//
// The idea: write out every element of A, zeros included, and multiply row by row. y[i] is the dot product of
// row i and x. Nothing has to be looked up, and most of the products are with zero.
//
// The sum is one variable, so every addition waits for the one before it. That costs the latency of an
// addition for each element, about four clocks, and the processor could do many more in the meantime. The
// compiler must not mend this: another order of additions changes the rounding. (fast/dense_spmv.cpp does it
// by hand, with 32 sums.)
//
// Input: rows x cols elements must fit into memory; the entry says so where they do not. Cost: rows x cols
// multiplications, and rows x cols x sizeof(T) bytes from memory for each y = A x.

#include "01_cpu_serial/dense.hpp"
#include "01_cpu_serial/stage.hpp"

namespace stages {
namespace {

template <class T>
class DenseSpmvPlain final : public cpu_serial::DenseSpmvPlan<T> {
  using cpu_serial::DenseSpmvPlan<T>::DenseSpmvPlan;

  void product(const T* x, T* y) override {
    const Dense<T>& a = this->dense();
    for (Index i = 0; i < a.rows; ++i) {
      const T* row = a.data.data() + i * a.ld;
      T sum = 0;
      for (Index j = 0; j < a.cols; ++j) sum += row[j] * x[j];
      y[i] = sum;
    }
  }
};

}  // namespace

void cpu_serial::add_dense_spmv_plain(Registry& registry) {
  registry.add<DenseSpmvPlain>(
      {.name = "01_cpu_serial/dense_spmv_plain", .idea = "A stored densely: a loop in a loop, one sum"});
}

}  // namespace stages
