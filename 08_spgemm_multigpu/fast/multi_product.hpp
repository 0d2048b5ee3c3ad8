#pragma once
// What the entries for several GPUs share: each process has some rows of A and all of B on its GPU, and
// multiplies them as one GPU does. Which rows, and how the rows of C come together, is the entry's business.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "08_spgemm_multigpu/fast/binned.hpp"
#include "common/gpu/plans.hpp"
#include "common/mpi/session.hpp"
#include "common/mpi/spgemm_plan.hpp"
#include "common/mpi/transfer.hpp"

namespace stages::spgemm {

/// How a process multiplies its rows: by binned.cu. Nothing is recorded: that would be anew each time that rows
/// are dealt otherwise.
template <class T>
struct ByBinned {
  using Plan = BinnedPlan<T>;
  static constexpr bool kChains = true;
  static Cost cost(const SpgemmProblem<T>& problem) { return binned_cost(problem); }
  /// What of that memory each process has for all of B.
  static double bytes_of_b(const SpgemmProblem<T>& problem) { return binned_bytes_of_b(problem); }
  static std::unique_ptr<Plan> make(const SpgemmProblem<T>& problem, Exec& exec, const Settings& settings) {
    return make_binned(problem, exec, settings);
  }
};

template <class T, class Local = ByBinned<T>>
class MultiProduct : public mpi::MpiSpgemmPlan<T> {
 public:
  static constexpr Needs kNeeds = {.gpu = true, .several_ranks = true, .mpi = true};
  static constexpr bool kChains = Local::kChains;
  /// A and C are shared out, not always evenly, with row pointers once more where C goes to one place; B is
  /// everywhere.
  static Cost cost(const SpgemmProblem<T>& problem) {
    constexpr double kUneven = 1.25;
    Cost cost = Local::cost(problem);
    const double b = Local::bytes_of_b(problem), row_ptr = sizeof(Offset) * (problem.a->rows + 1.0);
    cost.memory = b + kUneven * (cost.memory - b + row_ptr) / mpi::world_size();
    return cost;
  }

  /// The note of the lowest process that has one, and whether processes took turns. Collective.
  std::string note() const final {
    const std::string own = own_note();
    const std::string mine = own.empty() ? "" : fmt::format("process {}: {}\n", this->me(), own);
    const std::string all = mpi::all_text(mine, this->comm());
    const std::string first = all.substr(0, all.find('\n'));
    if (!takes_turns()) return first;
    return first + (first.empty() ? "" : "; ") + "processes share a GPU: the time is that of all turns";
  }

 protected:
  MultiProduct(const SpgemmProblem<T>& problem, Exec& exec, const Settings& settings)
      : mpi::MpiSpgemmPlan<T>(problem, exec, mpi::Placed::by_load), settings_(settings) {
    // Not by each process's own products, no row is split or a band's, and spans are as wide as fits: else a
    // row's form, and with it the order of its sums, would depend on the rows beside it: on how rows are dealt.
    settings_.products = std::max<Offset>(1, this->shape_.products / this->ranks_.size());
    settings_.rules.most_long_rows = 0;
    settings_.rules.span_blocks_an_sm = 0;
    settings_.rules.band_products = 0;
  }

  virtual std::string own_note() const { return product_->note(); }

  /// For place(): new values of A, rank 0's in the order of its rows as dealt, and B's if values_ has any.
  void place_values(const T* of_a) {
    values_.a_values.resize(static_cast<std::size_t>(entries_[this->me() + 1] - entries_[this->me()]));
    mpi::scatter(of_a, values_.a_values.data(), entries_, 0, this->comm());
    product_->load(values_);
  }

  void multiply() override {
    as_gpu(this->exec_).alone([this] {
      const auto start = std::chrono::steady_clock::now();
      product_->run();
      this->exec_.synchronize();
      this->add_compute_seconds(mpi::seconds_since(start));
    });
  }

  /// By the mean of all processes, as in the constructor.
  void keep_rows() override {
    if constexpr (kChains) {
      auto results = static_cast<double>(product_->results());
      mpi::sum_over_ranks(std::span(&results, 1), this->comm());
      product_->advance_by(static_cast<Offset>(results / this->ranks_.size()));
    }
  }

  bool takes_turns() const final { return as_gpu(this->exec_).is_shared(); }

  Settings settings_;
  std::vector<Offset> entries_;  ///< where each process's non-zeros begin in A, its rows as dealt
  SpgemmOperands<T> values_;     ///< of this process's rows, and of B
  std::unique_ptr<typename Local::Plan> product_;
};

}  // namespace stages::spgemm
