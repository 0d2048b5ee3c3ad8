// Task: fill in the dealing: whole rows of A to each rank, so that all get about equally many entries.
// Reference: 02_mpi/scatter_gather
// Ranks: 3
//
// bounds[r] is the first row of rank r, and bounds[ranks] the number of rows: rank r gets the rows bounds[r]
// .. bounds[r + 1] - 1, which may be none. The original cut A after every nnz / ranks entries, in the middle
// of rows, so that C held several entries at one place. Here a share is whole rows, and ends where its part
// of the entries is about reached: row_ptr says how many entries lie before a row.
//
// Before you write: for which matrices are equal shares of the entries of A no equal shares of the work?

#include <algorithm>

#include "common/harness/registry.hpp"
#include "common/mpi/spgemm_plan.hpp"

namespace stages {
namespace {

mpi::RowBounds deal(std::span<const Offset> row_ptr, int ranks) {
  const auto rows = static_cast<Index>(std::ssize(row_ptr) - 1);
  mpi::RowBounds bounds(static_cast<std::size_t>(ranks) + 1, 0);
  // SOLUTION
  for (int r = 1; r < ranks; ++r) {
    const Offset share = row_ptr.back() * r / ranks;
    const auto first = std::lower_bound(row_ptr.begin(), row_ptr.end() - 1, share) - row_ptr.begin();
    bounds[static_cast<std::size_t>(r)] = static_cast<Index>(first);
  }
  bounds.back() = rows;
  // STUDENT
  // Your code. Until then each rank gets rows / ranks rows, and what is left over is lost.
  for (int r = 1; r <= ranks; ++r) bounds[static_cast<std::size_t>(r)] = rows / ranks * r;
  // END
  return bounds;
}

template <class T>
class MyDealing final : public mpi::MpiSpgemmPlan<T> {
 public:
  MyDealing(const SpgemmProblem<T>& problem, Exec& exec) : mpi::MpiSpgemmPlan<T>(problem, exec) {
    mpi::RowBounds bounds;
    if (this->root()) bounds = deal(problem.a->row_ptr, this->ranks_.size());
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

  void collect() override { c_.gather(c_part_, bounds_, this->shape_.cols, this->comm()); }
  void forget() override {
    c_.forget();
    c_part_ = Csr<T>();
  }
  Csr<T> result() const override { return c_.whole(); }

  mpi::RowBounds bounds_;
  Csr<T> a_part_, c_part_, b_copy_;
  CsrView<T> b_all_;
  mpi::GatheredRows<T> c_;
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<MyDealing>({.name = "task/deal_rows",
                           .idea = "whole rows, equal shares of the entries",
                           .needs = {.several_ranks = true, .mpi = true}});
}

}  // namespace stages
