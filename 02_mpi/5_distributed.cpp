// SpGEMM over processes whose A, B and C lie on the ranks by rows.
//
// The idea, a change of 3_balanced.cpp: rank r holds some rows of A and of B, and makes its rows of C. For
// these it needs row k of B wherever column k occurs in its rows of A, and nothing else. So the ranks tell
// each other which rows they need, send these, and multiply. On a mesh or a band each rank needs its own rows
// and a few of its neighbours'; on a random graph nearly everything, and then it is no better than a
// broadcast.
//
// Four small exchanges (how many rows, which ones, how long they are, their columns and values) replace the
// broadcast; in them rank 0 is like any other rank. This is the sparsity-aware 1D algorithm. C lies as A did,
// so it is the A of the next product where there is one: A <- A B, again and again (--mode chain), and then no
// matrix ever moves but the rows of B that a rank lacks.
//
// As an entry it begins where the others begin: rank 0 sends out the rows of A and B (place). With
// --destination distributed C then stays on the ranks; otherwise rank 0 gathers it (collect). Rows of A are
// dealt by products, corrected by the time that they take. A square A gives its deal to B too, because near
// the diagonal a row needs rows of its own rank; otherwise B is dealt by nnz.
//
// Input: any CSR matrices, any number of ranks. Cost: one step a product, over ranks; messages: the distinct
// rows of B that each rank's columns name and another rank owns. Memory on a rank: its rows of A, B and C, and
// the rows of B that it fetched.
//
// Source: A. Buluc and J. R. Gilbert, "Parallel sparse matrix-matrix multiplication and indexing:
// implementation and experiments", SIAM J. Sci. Comput. 34 (2012), for the 1D algorithms and what is wrong
// with them at many ranks.

#include "02_mpi/distributed_csr.hpp"
#include "02_mpi/stage.hpp"
#include "common/mpi/session.hpp"
#include "common/mpi/spgemm_plan.hpp"

namespace stages {
namespace {

template <class T>
class Distributed final : public mpi::MpiSpgemmPlan<T> {
 public:
  static constexpr bool kChains = true;
  Distributed(const SpgemmProblem<T>& problem, Exec& exec)
      : mpi::MpiSpgemmPlan<T>(problem, exec), product_(this->comm(), this->shape_.cols) {
    std::vector<Offset> before;
    if (this->root()) before = mpi::products_before(*problem.a, *problem.b, 1);
    if (this->shape_.rows != this->shape_.inner) {
      mpi::RowBounds bounds;
      if (this->root()) bounds = mpi::deal(problem.b->row_ptr, this->ranks_.size());
      b_part_.bounds = mpi::shared_bounds(std::move(bounds), this->comm());
    }
    this->deal_rows_by_time(std::move(before));
  }

  static Cost cost(const SpgemmProblem<T>& problem) {
    return problem_cost(problem).plus_memory(mpi::world_size() * kernels::spgemm_rows_bytes(*problem.b) +
                                             static_cast<double>(problem.result_bound) *
                                                 (sizeof(Index) + sizeof(T)));
  }

 private:
  void use(const mpi::RowBounds& bounds) override {
    a_part_.bounds = bounds;
    if (this->shape_.rows == this->shape_.inner) b_part_.bounds = bounds;
  }
  void place() override {
    mpi::scatter_rows(this->a_, a_part_.bounds, this->shape_.inner, a_part_.mine, this->comm());
    if (this->has_b()) return;
    mpi::scatter_rows(this->b_, b_part_.bounds, this->shape_.cols, b_part_.mine, this->comm());
  }
  void multiply() override {
    this->add_compute_seconds(product_.multiply(a_part_, b_part_, c_part_, this->exec_));
  }
  void collect() override { c_.gather(c_part_.mine, c_part_.bounds, this->shape_.cols, this->comm()); }
  void forget() override {
    c_.forget();
    c_part_.mine = Csr<T>();
  }
  Csr<T> result() const override { return c_.whole(); }
  void take_result(Csr<T>& to) override { c_.exchange(to); }
  void keep_rows() override { std::swap(a_part_, c_part_); }

  mpi::DistributedProduct<T> product_;
  mpi::DistributedCsr<T> a_part_, b_part_, c_part_;
  mpi::GatheredRows<T> c_;
};

}  // namespace

void add_mpi_distributed(Registry& registry) {
  registry.add<Distributed>(
      {.name = "02_mpi/distributed",
       .idea = "A, B and C stay on the ranks by rows; each fetches the rows of B it needs",
       .previous = "balanced"});
}

}  // namespace stages
