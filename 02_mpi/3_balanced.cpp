// SpGEMM over processes, with shares of rows that take equally long: on two ranks a wrong turn.
//
// The idea: in 2_gustavson.cpp ranks have equally many non-zeros of A, and all wait for the slowest. What row i
// of C really does are its products: the sum of nnz(B(k, :)) over the non-zeros (i, k) of A. Here rows are
// dealt by these, and one more for each row. But products are no time either, so this deal is only tried out,
// and rows are dealt again by the time that each rank took. Where one row takes longer than a share, it bounds
// the speed-up.
//
// On the project's pair, whose rows are alike, this gains nothing. On two ranks it gains little on any matrix
// that was measured: half of the non-zeros of A take nearly half of the time there, also where they have far
// more than half of the products. See measured.md, and notes.md for 16 ranks.
//
// Input: any CSR matrices, any number of ranks. Cost: one step a product, over ranks. The constructor takes up
// to four trials of three to six products each (deal_rows_by_time in common/mpi/spgemm_plan.cpp). Messages as
// in scatter_gather.

#include "02_mpi/scattered_rows.hpp"
#include "02_mpi/stage.hpp"
#include "common/kernels/spgemm_rows.hpp"

namespace stages {
namespace {

template <class T>
class Balanced final : public ScatteredRows<T> {
 public:
  Balanced(const SpgemmProblem<T>& problem, Exec& exec)
      : ScatteredRows<T>(problem, exec), rows_(this->shape_.cols) {
    std::vector<Offset> before;
    if (this->root()) before = mpi::products_before(*problem.a, *problem.b, 1);
    this->deal_rows_by_time(std::move(before));  // multiplies, to see how long the ranks take
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

void add_mpi_balanced(Registry& registry) {
  registry.add<Balanced>({.name = "02_mpi/balanced",
                          .idea = "a wrong turn on few ranks: shares of rows that take equally long",
                          .previous = "gustavson"});
}

}  // namespace stages
