// Task: find the faults in the gathering of C on rank 0, and mend them: one shows in float, both in double.
// Reference: 02_mpi/scatter_gather
// Ranks: 3
//
// Each rank has made its rows of C, and rank 0 gathers them: the row pointers, the columns, the values. The
// original of this step did the same, with MPI_Gatherv, and its result was never compared with that of a
// single process. The multiplication is right, and so is the order of the ranks.
//
// Say before you run it: what does the check see first, the structure of C or its values? And why did no
// compiler say anything?

#include "common/harness/registry.hpp"
#include "common/mpi/spgemm_plan.hpp"
#include "common/mpi/transfer.hpp"

namespace stages {
namespace {

template <class T>
class MyGather final : public mpi::MpiSpgemmPlan<T> {
 public:
  MyGather(const SpgemmProblem<T>& problem, Exec& exec) : mpi::MpiSpgemmPlan<T>(problem, exec) {
    mpi::RowBounds bounds;
    if (this->root()) bounds = mpi::deal(problem.a->row_ptr, this->ranks_.size());
    bounds_ = mpi::shared_bounds(std::move(bounds), this->comm());
  }

  static Cost cost(const SpgemmProblem<T>& problem) { return problem_cost(problem); }

 private:
  void place() override {
    mpi::scatter_rows(this->a_, bounds_, this->shape_.inner, a_part_, this->comm());
    b_all_ = mpi::broadcast_matrix(this->b_, b_copy_, this->comm());
  }

  /// Row by row: the rows of B that a row of A names, added up in a row written out in full.
  void multiply() override {
    const auto start = std::chrono::steady_clock::now();
    c_part_ = Csr<T>(a_part_.rows, this->shape_.cols);
    std::vector<T> sums(static_cast<std::size_t>(this->shape_.cols));
    std::vector<bool> there(sums.size());
    for (std::size_t i = 0; i < static_cast<std::size_t>(a_part_.rows); ++i) {
      there.assign(there.size(), false);
      for (Offset p = a_part_.row_ptr[i]; p < a_part_.row_ptr[i + 1]; ++p)
        add_row(a_part_.col_idx[static_cast<std::size_t>(p)], a_part_.values[static_cast<std::size_t>(p)],
                sums, there);
      for (std::size_t j = 0; j < sums.size(); ++j) {
        if (!there[j]) continue;
        c_part_.col_idx.push_back(static_cast<Index>(j));
        c_part_.values.push_back(sums[j]);
      }
      c_part_.row_ptr[i + 1] = c_part_.nnz();
    }
    this->add_compute_seconds(mpi::seconds_since(start));
  }

  void add_row(Index k, T factor, std::vector<T>& sums, std::vector<bool>& there) const {
    for (Offset q = b_all_.row_ptr[k]; q < b_all_.row_ptr[k + 1]; ++q) {
      const auto j = static_cast<std::size_t>(b_all_.col_idx[q]);
      sums[j] = (there[j] ? sums[j] : T{0}) + factor * b_all_.values[q];
      there[j] = true;
    }
  }

  /// Rows, columns and values of all ranks, one rank after the other, to rank 0.
  void collect() override {
    std::vector<Offset> rows(bounds_.begin(), bounds_.end());
    std::vector<Offset> places(rows.size(), 0);  // where each rank's entries begin in C
    for (std::size_t r = 0; r + 1 < rows.size(); ++r) {
      Offset count = c_part_.nnz();
      mpi::broadcast(&count, 1, static_cast<int>(r), this->comm());
      places[r + 1] = places[r] + count;
    }
    if (this->root()) {
      c_ = Csr<T>(bounds_.back(), this->shape_.cols);
      c_.col_idx.resize(static_cast<std::size_t>(places.back()));
      c_.values.resize(c_.col_idx.size());
    }
    mpi::gather(c_part_.row_ptr.data() + 1, c_.row_ptr.data() + 1, rows, 0, this->comm());
    // SOLUTION
    mpi::gather(c_part_.col_idx.data(), c_.col_idx.data(), places, 0, this->comm());
    mpi::gather(c_part_.values.data(), c_.values.data(), places, 0, this->comm());
    // STUDENT
    gather_words(c_part_.col_idx.data(), c_.col_idx.data(), places);
    gather_words(c_part_.values.data(), c_.col_idx.data(), places);
    // END
    if (!this->root()) return;
    for (std::size_t r = 0; r + 1 < rows.size(); ++r) {
      for (Offset i = rows[r]; i < rows[r + 1]; ++i) c_.row_ptr[static_cast<std::size_t>(i) + 1] += places[r];
    }
  }
  // SOLUTION
  // STUDENT
  /// As the original called MPI_Gatherv: with untyped addresses, of which the compiler checks nothing.
  void gather_words(const void* part, void* whole, const std::vector<Offset>& places) const {
    mpi::gather(static_cast<const std::uint32_t*>(part), static_cast<std::uint32_t*>(whole), places, 0,
                this->comm());
  }
  // END
  void forget() override {
    c_ = Csr<T>();
    c_part_ = Csr<T>();
  }
  Csr<T> result() const override { return c_; }

  mpi::RowBounds bounds_;
  Csr<T> a_part_, c_part_, b_copy_, c_;
  CsrView<T> b_all_;
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<MyGather>({.name = "task/gather_rows",
                          .idea = "C is gathered on rank 0 array by array",
                          .needs = {.several_ranks = true, .mpi = true}});
}

}  // namespace stages
