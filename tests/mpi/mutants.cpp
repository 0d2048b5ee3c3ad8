// The faults of the course project's MPI version, planted one at a time into the scheme of scatter_gather:
// the checker must reject each of them, and accept the scheme without a fault. (tests/mutants has the same
// faults without MPI.)
#include <algorithm>
#include <map>

#include "common/harness/check.hpp"
#include "common/matrix/generate.hpp"
#include "common/mpi/deal.hpp"
#include "common/mpi/transfer.hpp"
#include "tests/mpi/checks.hpp"

namespace stages::mpi_tests {
namespace {

enum class Fault {
  none,
  values_into_columns,  ///< D1 (e): the gather writes the values into the array of the columns
  rows_cut,             ///< D1 (f): equal shares of nnz, whatever row they end in
  padded_shares,        ///< D1 (g): shares made equal by explicit zeros at the last corner
};

const char* name_of(Fault fault) {
  switch (fault) {
    case Fault::none:
      return "none";
    case Fault::values_into_columns:
      return "values gathered into the columns";
    case Fault::rows_cut:
      return "rows cut in two";
    case Fault::padded_shares:
      return "shares padded with zeros";
  }
  return "";
}

/// One entry of A or C.
template <class T>
struct Entry3 {
  Index row;
  Index column;
  T value;
};

/// A's entries in row-major order go to the ranks in shares; each multiplies its share by all of B.
template <class T, Fault kFault>
class ScatterMutant final : public SpgemmPlan<T> {
 public:
  ScatterMutant(const SpgemmProblem<T>& problem, Exec& exec)
      : problem_(problem), ranks_(*mpi::ranks_of(exec)) {}
  static Cost cost(const SpgemmProblem<T>& problem) { return problem_cost(problem); }

  void load(const SpgemmOperands<T>& operands) override { operands_ = &operands; }
  void reset() override { c_ = Csr<T>(); }
  Csr<T> fetch() override { return c_; }

  void run() override {
    const std::vector<Entry3<T>> share = scatter_share();
    broadcast_b();
    gather(multiply(share));
  }

 private:
  bool root() const { return ranks_.rank() == 0; }

  std::vector<Offset> share_bounds(Offset nnz) const {
    const Offset ranks = ranks_.size();
    std::vector<Offset> bounds;
    if constexpr (kFault == Fault::rows_cut) {
      for (Offset r = 0; r <= ranks; ++r) bounds.push_back(nnz * r / ranks);
    } else {
      for (const Index row : mpi::deal(problem_.a->row_ptr, ranks_.size()))
        bounds.push_back(problem_.a->row_ptr[static_cast<std::size_t>(row)]);
    }
    return bounds;
  }

  std::vector<Entry3<T>> scatter_share() {
    std::vector<Entry3<T>> all;
    std::vector<Offset> bounds(static_cast<std::size_t>(ranks_.size()) + 1);
    if (root()) {
      const Csr<T>& a = *problem_.a;
      for (Index i = 0; i < a.rows; ++i) {
        for (auto q = static_cast<std::size_t>(a.row_ptr[static_cast<std::size_t>(i)]);
             q < static_cast<std::size_t>(a.row_ptr[static_cast<std::size_t>(i) + 1]); ++q)
          all.push_back({i, a.col_idx[q], operands_->a_values[q]});
      }
      bounds = share_bounds(a.nnz());
      corner_ = {a.rows - 1, a.cols - 1, T{0}};
    }
    mpi::broadcast(&corner_, 1, 0, ranks_.comm());
    mpi::broadcast(bounds.data(), std::ssize(bounds), 0, ranks_.comm());
    const auto me = static_cast<std::size_t>(ranks_.rank());
    std::vector<Entry3<T>> share(static_cast<std::size_t>(bounds[me + 1] - bounds[me]));
    mpi::scatter(all.data(), share.data(), bounds, 0, ranks_.comm());
    if (kFault == Fault::padded_shares) {
      Offset longest = 0;
      for (std::size_t r = 0; r + 1 < bounds.size(); ++r)
        longest = std::max(longest, bounds[r + 1] - bounds[r]);
      share.resize(static_cast<std::size_t>(longest), corner_);
    }
    return share;
  }

  void broadcast_b() {
    if (root()) {
      b_ = *problem_.b;
      b_.values = operands_->b_values;
    }
    mpi::broadcast(b_.row_ptr, 0, ranks_.comm());
    mpi::broadcast(b_.col_idx, 0, ranks_.comm());
    mpi::broadcast(b_.values, 0, ranks_.comm());
  }

  std::vector<Entry3<T>> multiply(const std::vector<Entry3<T>>& share) const {
    std::map<std::pair<Index, Index>, T> sums;
    for (const auto& [i, k, value] : share) {
      for (auto q = static_cast<std::size_t>(b_.row_ptr[static_cast<std::size_t>(k)]);
           q < static_cast<std::size_t>(b_.row_ptr[static_cast<std::size_t>(k) + 1]); ++q)
        sums[{i, b_.col_idx[q]}] += value * b_.values[q];
    }
    std::vector<Entry3<T>> out;
    for (const auto& [place, value] : sums) out.push_back({place.first, place.second, value});
    return out;
  }

  void gather(const std::vector<Entry3<T>>& mine) {
    const std::vector<Offset> bounds = mpi::all_bounds(std::ssize(mine), ranks_.comm());
    std::vector<Entry3<T>> all(static_cast<std::size_t>(root() ? bounds.back() : 0));
    mpi::gather(mine.data(), all.data(), bounds, 0, ranks_.comm());
    if (!root()) return;
    c_ = Csr<T>(problem_.a->rows, problem_.b->cols);
    for (const auto& [row, column, value] : all) {
      ++c_.row_ptr[static_cast<std::size_t>(row) + 1];
      c_.col_idx.push_back(kFault == Fault::values_into_columns ? static_cast<Index>(value) : column);
      c_.values.push_back(value);
    }
    for (std::size_t i = 0; i + 1 < c_.row_ptr.size(); ++i) c_.row_ptr[i + 1] += c_.row_ptr[i];
  }

  SpgemmProblem<T> problem_;
  mpi::MpiCommunicator& ranks_;
  const SpgemmOperands<T>* operands_ = nullptr;
  Entry3<T> corner_{};  // an explicit zero at A's last corner
  Csr<T> b_;
  Csr<T> c_;
};

template <class T>
using Correct = ScatterMutant<T, Fault::none>;
template <class T>
using ValuesIntoColumns = ScatterMutant<T, Fault::values_into_columns>;
template <class T>
using RowsCut = ScatterMutant<T, Fault::rows_cut>;
template <class T>
using PaddedShares = ScatterMutant<T, Fault::padded_shares>;

template <template <class> class PlanOf>
void judge(World& world, Fault fault, const SpgemmProblem<float>& problem) {
  Registry registry;
  registry.add<PlanOf>({.name = "mutant/mpi", .idea = "planted fault", .needs = {.several_ranks = true}});
  const CheckReport report = check_entry(registry.find("mutant/mpi"), problem, world.exec);
  if (!world.root()) return;
  require(report.passed() == (fault == Fault::none), "fault '{}' on {} ranks: the checker says '{}'",
          name_of(fault), world.ranks.size(), report.passed() ? "good" : report.failure);
  fmt::print("{}: {}\n", name_of(fault), report.passed() ? "good" : report.failure);
}

}  // namespace

/// Rows of equal length do not divide by the ranks, so that shares differ and there is something to pad.
void mutants(World& world) {
  SpgemmProblem<float> problem;
  if (world.root()) {
    const auto a =
        std::make_shared<const Csr<float>>(generate<float>("gen:uniform:rows=61,cols=61,per_row=7"));
    problem = make_spgemm_problem<float>("mutants", a, a);
    require(a->nnz() % world.ranks.size() != 0, "choose another matrix: {} entries leave no padding",
            a->nnz());
  }
  judge<Correct>(world, Fault::none, problem);
  judge<ValuesIntoColumns>(world, Fault::values_into_columns, problem);
  judge<RowsCut>(world, Fault::rows_cut, problem);
  judge<PaddedShares>(world, Fault::padded_shares, problem);
}

}  // namespace stages::mpi_tests
