// SpGEMM over processes, as the course project did it: scatter A, broadcast B, multiply, gather C.
//
// The idea: rank 0 holds A, B and in the end C. A is cut by rows into shares of about equal nnz, and each
// rank gets one (MPI_Scatterv); B, by columns, goes to all of them (MPI_Bcast); each rank makes its rows of C
// by sparse dot products, the method of two_pointer_dot in stage 01; MPI_Gatherv brings the rows back to rank
// 0.
//
// What the project's version got wrong, and what is done about it here:
//
//   It cut A after every nnz / ranks entries, in the middle of rows, so that C held several entries at one
//   place, each a part of the sum. Here shares are whole rows. It made all shares equally long by padding the
//   last with zeros at the last corner of A. Here MPI_Scatterv takes shares as long as they are, and there
//   may be more ranks than rows. It gathered the values into the array of the columns. Here each array of C
//   has its own MPI_Gatherv, at places that come from the counts of all ranks. Every rank sorted B into
//   columns again. Here rank 0 does it once, before the run.
//
// What remains is the plan itself. Two things cannot scale: rank 0 sends B to everyone and takes all of C, so
// these bytes pass one memory whatever the number of ranks; and equal shares of nnz(A) are not equal shares
// of the work, which is products. The README of this stage measures both, and what the project's report
// blamed.
//
// Input: any CSR matrices, any number of ranks. Cost: as two_pointer_dot, over ranks; messages of nnz(A) +
// ranks x nnz(B) + nnz(C) entries, all from or to rank 0.

#include "02_mpi/stage.hpp"
#include "common/kernels/sparse_dot_rows.hpp"
#include "common/mpi/session.hpp"
#include "common/mpi/spgemm_plan.hpp"
#include "common/mpi/transfer.hpp"

namespace stages {
namespace {

template <class T>
class ScatterGather final : public mpi::MpiSpgemmPlan<T> {
 public:
  ScatterGather(const SpgemmProblem<T>& problem, Exec& exec) : mpi::MpiSpgemmPlan<T>(problem, exec) {
    if (this->root()) columns_ = kernels::columns_of(*problem.b);
    this->deal_rows(this->root() ? std::span<const Offset>(problem.a->row_ptr) : std::span<const Offset>());
  }

  static Cost cost(const SpgemmProblem<T>& problem) {
    Cost cost = problem_cost(problem);
    cost.work = kernels::sparse_dot_steps(*problem.a, *problem.b);
    const double ranks = mpi::world_size();
    cost.memory += ranks * (static_cast<double>(problem.b->nnz()) * (sizeof(Index) + sizeof(T)) +
                            static_cast<double>(problem.b->cols) * (sizeof(Offset) + sizeof(Index))) +
                   static_cast<double>(problem.result_bound) * (sizeof(Index) + sizeof(T));
    return cost;
  }

 private:
  void use(const mpi::RowBounds& bounds) override { bounds_ = bounds; }
  void place() override {
    mpi::scatter_rows(this->a_, bounds_, this->shape_.inner, a_part_, this->comm());
    if (this->root()) {
      b_values_.resize(columns_.source.size());
      for (std::size_t t = 0; t < b_values_.size(); ++t) b_values_[t] = this->b_.values[columns_.source[t]];
    }
    mpi::broadcast(columns_.col_ptr, 0, this->comm());
    mpi::broadcast(columns_.not_empty, 0, this->comm());
    mpi::broadcast(columns_.row_idx, 0, this->comm());
    mpi::broadcast(b_values_, 0, this->comm());
  }

  void multiply() override {
    Phase phase(this->exec_, "compute");
    const auto start = std::chrono::steady_clock::now();
    c_part_.rows = a_part_.rows;
    c_part_.cols = this->shape_.cols;
    c_part_.row_ptr.resize(a_part_.row_ptr.size());
    c_part_.row_ptr[0] = 0;
    std::size_t count = 0;
    for (std::size_t i = 0; i + 1 < a_part_.row_ptr.size(); ++i) {
      const Offset first = a_part_.row_ptr[i], length = a_part_.row_ptr[i + 1] - first;
      if (length > 0) {
        make_room(count + columns_.not_empty.size());
        count = kernels::dot_row<T>({a_part_.col_idx.data() + first, a_part_.values.data() + first, length},
                                    columns_, b_values_.data(), c_part_, count);
      }
      c_part_.row_ptr[i + 1] = static_cast<Offset>(count);
    }
    c_part_.col_idx.resize(count);
    c_part_.values.resize(count);
    this->add_compute_seconds(mpi::seconds_since(start));
  }

  void make_room(std::size_t entries) {
    if (entries <= c_part_.values.size()) return;
    c_part_.col_idx.resize(std::max(entries, 2 * c_part_.values.size()));
    c_part_.values.resize(c_part_.col_idx.size());
  }

  void collect() override { c_.gather(c_part_, bounds_, this->shape_.cols, this->comm()); }
  void forget() override {
    c_.forget();
    c_part_ = Csr<T>();
  }
  Csr<T> result() const override { return c_.whole(); }

  mpi::RowBounds bounds_;
  kernels::Columns columns_;  // of B
  Buffer<T> b_values_;        // by columns
  Csr<T> a_part_;
  Csr<T> c_part_;
  mpi::GatheredRows<T> c_;
};

}  // namespace

void add_mpi_scatter_gather(Registry& registry) {
  registry.add<ScatterGather>({.name = "02_mpi/scatter_gather",
                               .idea = "rank 0 scatters A and broadcasts B; dot products; C is gathered",
                               .needs = {.several_ranks = true, .mpi = true}});
}

}  // namespace stages
