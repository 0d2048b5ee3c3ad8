// SpGEMM over processes: the same scatter and gather, with a kernel that takes a step for each product.
//
// The idea: 1_scatter_gather.cpp lets each row of A meet each column of B. Here each rank multiplies as
// fast/gustavson_adaptive.cpp of step 1 does: a row of C is the sum of the rows of B that the row of A names.
// So B is used by rows, as it came. The ranks have the same rows of A as before: equal shares of its non-zeros.
//
// The lesson is what this does to the clock. Computing takes a hundredth of the time, and as much is sent as
// before: what was hidden behind the dot products is now a third of the whole (measured.md, two ranks).
//
// Input: any CSR matrices, any number of ranks. Cost: a step a product, over ranks; scatter_gather's messages.

#include "02_mpi/scattered_rows.hpp"
#include "02_mpi/stage.hpp"
#include "common/kernels/spgemm_rows.hpp"

namespace stages {
namespace {

template <class T>
class Gustavson final : public ScatteredRows<T> {
 public:
  Gustavson(const SpgemmProblem<T>& problem, Exec& exec)
      : ScatteredRows<T>(problem, exec), rows_(this->shape_.cols) {
    std::span<const Offset> entries_before;
    if (this->root()) entries_before = problem.a->row_ptr;
    this->deal_rows(entries_before);
  }

  static Cost cost(const SpgemmProblem<T>& problem) {
    return ScatteredRows<T>::cost_with(problem, kernels::spgemm_rows_bytes(*problem.b));
  }

 private:
  void multiply_rows(const CsrView<T>& a, const CsrView<T>& b, Csr<T>& c) override {
    rows_.reserve(a, b, c);
    rows_.fill(a, b, c);
  }

  kernels::SpgemmRows<T> rows_;
};

}  // namespace

void add_mpi_gustavson(Registry& registry) {
  registry.add<Gustavson>({.name = "02_mpi/gustavson",
                           .idea = "gustavson_adaptive of step 1 on each rank",
                           .previous = "scatter_gather"});
}

}  // namespace stages
