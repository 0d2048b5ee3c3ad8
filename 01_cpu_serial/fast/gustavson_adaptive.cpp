// For experts. Gustavson's algorithm in one pass, with a choice for every row.
//
// 6_gustavson_dense.cpp lets C grow and, for each row, scans a bitmap as long as the row is wide. Here C is
// written into arrays reserved at a bound of its size, and each row goes the way that suits it: few products
// are inserted in order; short rows of B are written out into a batch before they are added; long ones are
// marked a word of the bitmap at a time; a row over a wide range keeps a bitmap of the bitmap. The kernel and
// its reasons are in common/kernels/spgemm_rows.hpp, because step 2 runs it on every rank.
//
// Input: any CSR matrices. Cost: a step a product; memory: C's bound, and columns x (sizeof(T) + 1/8) bytes.

#include "01_cpu_serial/stage.hpp"
#include "common/kernels/spgemm_rows.hpp"

namespace stages {
namespace {

template <class T>
class GustavsonAdaptive final : public HostSpgemmPlan<T> {
 public:
  GustavsonAdaptive(const SpgemmProblem<T>& problem, Exec& exec)
      : HostSpgemmPlan<T>(problem), exec_(exec), rows_(problem.b->cols) {}

  static Cost cost(const SpgemmProblem<T>& problem) {
    Cost cost = problem_cost(problem);
    cost.work +=
        static_cast<double>(problem.a->nnz()) + problem.a->rows + static_cast<double>(problem.b->nnz());
    cost.memory += kernels::spgemm_rows_bytes(*problem.b);
    return cost;
  }

  void run() override {
    const CsrView<T>&a = this->a(), &b = this->b();
    {
      Phase phase(exec_, "bound");
      rows_.reserve(a, b, this->c_);
    }
    Phase phase(exec_, "numeric");
    rows_.fill(a, b, this->c_);
  }

 private:
  Exec& exec_;
  kernels::SpgemmRows<T> rows_;
};

}  // namespace

void cpu_serial::add_gustavson_adaptive(Registry& registry) {
  registry.add<GustavsonAdaptive>(
      {.name = "01_cpu_serial/gustavson_adaptive",
       .idea = "one pass into the bound; each row picks insertion, scan or summary, batches or masks",
       .previous = "gustavson_dense"});
}

}  // namespace stages
