// SpGEMM on ranks: rows of A scattered, B broadcast, C gathered, each by a call of common/mpi for a whole
// matrix of any size. What is between them, a rank's own product, is the entry's.
//
// When place(), multiply() and collect() are called is in common/mpi/spgemm_plan.hpp. An entry says in its
// constructor which rows each rank gets, by deal_rows() or deal_rows_by_time(); these call use(). In a chain
// keep_rows() makes a rank's rows of C those of A, take_result() hands rank 0's C on without a copy, and where
// has_b() the ranks have B from the round before.

#include "common/mpi/session.hpp"
#include "common/mpi/spgemm_plan.hpp"

namespace stages {

/// Rows of A and C on the ranks, and C gathered; how B comes to them, and the kernel, are a derived class's.
template <class T>
class GatheredToRoot : public mpi::MpiSpgemmPlan<T> {
 public:
  static constexpr bool kChains = true;

 protected:
  using mpi::MpiSpgemmPlan<T>::MpiSpgemmPlan;

  mpi::RowBounds bounds_;
  Csr<T> a_part_, c_part_;

 private:
  void use(const mpi::RowBounds& bounds) override { bounds_ = bounds; }
  void collect() override { c_.gather(c_part_, bounds_, this->shape_.cols, this->comm()); }
  void forget() override {
    c_.forget();
    c_part_ = Csr<T>();
  }
  Csr<T> result() const override { return c_.whole(); }
  void take_result(Csr<T>& to) override { c_.exchange(to); }
  void keep_rows() override { std::swap(a_part_, c_part_); }

  mpi::GatheredRows<T> c_;
};

template <class T>
class ScatteredRows : public GatheredToRoot<T> {
 protected:
  using GatheredToRoot<T>::GatheredToRoot;

  /// This rank's product, C = A B.
  virtual void multiply_rows(const CsrView<T>& a, const CsrView<T>& b, Csr<T>& c) = 0;

  /// Of A, of B on each rank, and of C; the product takes so many bytes beside them on each rank.
  static Cost cost_with(const SpgemmProblem<T>& problem, double bytes_of_rank) {
    constexpr double kEntry = sizeof(Index) + sizeof(T);
    const int ranks = mpi::world_size();
    return problem_cost(problem).plus_memory(
        ranks * bytes_of_rank +
        (ranks - 1) * (kEntry * static_cast<double>(problem.b->nnz()) + 8.0 * problem.b->rows) +
        kEntry * static_cast<double>(problem.a->nnz() + problem.result_bound));
  }

 private:
  void place() override {
    mpi::scatter_rows(this->a_, this->bounds_, this->shape_.inner, this->a_part_, this->comm());
    if (!this->has_b()) b_view_ = mpi::broadcast_matrix(this->b_, b_copy_, this->comm());
  }

  void multiply() override {
    Phase phase(this->exec_, "compute");
    const auto start = std::chrono::steady_clock::now();
    multiply_rows(this->a_part_.view(), b_view_, this->c_part_);
    this->add_compute_seconds(mpi::seconds_since(start));
  }

  Csr<T> b_copy_;
  CsrView<T> b_view_;  // rank 0: the loaded operand itself
};

}  // namespace stages
