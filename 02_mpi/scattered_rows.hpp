#pragma once
// SpGEMM on ranks with a layer over MPI: the scatter, the broadcast and the gather of 1_scatter_gather.cpp,
// each one call for a whole matrix, of any size.
//
// Rows of A are scattered, B is broadcast, each rank multiplies its rows with the kernel of gustavson_adaptive
// (step 1), and C is gathered. An entry says in its constructor who gets which rows: by deal_rows() or
// deal_rows_by_time().

#include "common/kernels/spgemm_rows.hpp"
#include "common/mpi/session.hpp"
#include "common/mpi/spgemm_plan.hpp"

namespace stages {

template <class T>
class ScatteredRows : public mpi::MpiSpgemmPlan<T> {
 public:
  static Cost cost(const SpgemmProblem<T>& problem) {
    Cost cost = problem_cost(problem);
    cost.memory += mpi::world_size() * kernels::spgemm_rows_bytes(*problem.b) +
                   static_cast<double>(problem.result_bound) * (sizeof(Index) + sizeof(T));
    return cost;
  }

 protected:
  ScatteredRows(const SpgemmProblem<T>& problem, Exec& exec)
      : mpi::MpiSpgemmPlan<T>(problem, exec), rows_(this->shape_.cols) {}

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

}  // namespace stages
