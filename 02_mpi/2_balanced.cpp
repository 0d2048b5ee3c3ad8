// SpGEMM over processes: the same scatter and gather, with the fastest serial kernel and shares of equal
// work.
//
// Two changes against 1_scatter_gather.cpp. Each rank multiplies with the kernel of gustavson_adaptive (step
// 1), whose steps are the products and not the meetings of rows with columns. And rows are dealt by what
// they cost: row i of C takes, over its entries k in A, the length of row k of B, so the shares are
// contiguous rows with about equal sums of that. Products are only nearly time, so the first deal is tried
// out and corrected (deal_rows_by_time in common/mpi/spgemm_plan.cpp). A row is never cut; where a single row
// holds more than a share, it bounds the speed-up.
//
// The lesson is what this does to the clock. The multiplication is now so short that from 4 ranks on what the
// ranks share, rank 0's memory, is most of the time: half of the report's explanation has become true, see the
// README.
//
// Input: any CSR matrices, any number of ranks. Cost: one step a product, over ranks; messages as in
// scatter_gather.

#include "02_mpi/stage.hpp"
#include "common/kernels/spgemm_rows.hpp"
#include "common/mpi/session.hpp"
#include "common/mpi/spgemm_plan.hpp"

namespace stages {
namespace {

template <class T>
class Balanced final : public mpi::MpiSpgemmPlan<T> {
 public:
  Balanced(const SpgemmProblem<T>& problem, Exec& exec)
      : mpi::MpiSpgemmPlan<T>(problem, exec), rows_(this->shape_.cols) {
    std::vector<Offset> before;
    if (this->root()) before = mpi::products_before(*problem.a, *problem.b, 1);
    this->deal_rows_by_time(std::move(before));
  }

  static Cost cost(const SpgemmProblem<T>& problem) {
    Cost cost = problem_cost(problem);
    cost.memory += mpi::world_size() * kernels::spgemm_rows_bytes(*problem.b) +
                   static_cast<double>(problem.result_bound) * (sizeof(Index) + sizeof(T));
    return cost;
  }

 private:
  void use(const mpi::RowBounds& bounds) override { bounds_ = bounds; }
  void place() override {
    mpi::scatter_rows(this->a_, bounds_, this->shape_.inner, a_part_, this->comm());
    b_view_ = mpi::broadcast_matrix(this->b_, b_copy_, this->comm());
  }

  void multiply() override {
    Phase phase(this->exec_, "compute");
    const auto start = std::chrono::steady_clock::now();
    rows_.reserve(a_part_.view(), b_view_, c_part_);
    rows_.fill(a_part_.view(), b_view_, c_part_);
    this->add_compute_seconds(mpi::seconds_since(start));
  }

  void collect() override { c_.gather(c_part_, bounds_, this->shape_.cols, this->comm()); }
  void forget() override {
    c_.forget();
    c_part_ = Csr<T>();
  }
  Csr<T> result() const override { return c_.whole(); }

  kernels::SpgemmRows<T> rows_;
  mpi::RowBounds bounds_;
  Csr<T> a_part_;
  Csr<T> b_copy_;
  CsrView<T> b_view_;  // rank 0: the loaded operand itself
  Csr<T> c_part_;
  mpi::GatheredRows<T> c_;
};

}  // namespace

void add_mpi_balanced(Registry& registry) {
  registry.add<Balanced>({.name = "02_mpi/balanced",
                          .idea = "shares that take equally long, the fastest serial kernel on each rank",
                          .needs = {.several_ranks = true, .mpi = true}});
}

}  // namespace stages
