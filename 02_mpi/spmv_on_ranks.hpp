#pragma once
// What SpMV entries on ranks share: x and y lie on the ranks by rows, rank 0 deals x and gathers y, and three
// clocks run. An entry adds how one product is made.

#include <functional>

#include "02_mpi/halo.hpp"
#include "common/mpi/check.hpp"
#include "common/mpi/clocks.hpp"
#include "common/mpi/exec.hpp"
#include "common/mpi/session.hpp"
#include "common/mpi/transfer.hpp"

namespace stages::mpi {

template <class T>
class SpmvOnRanks : public SpmvPlan<T> {
 public:
  static constexpr Needs kNeeds = {.several_ranks = true, .mpi = true};
  SpmvOnRanks(const SpmvProblem<T>& problem, Exec& exec)
      : matrix_(problem.a.get(), *ranks_of(exec)), exec_(exec), ranks_(*ranks_of(exec)) {
    facts_ = {problem.mode, problem.n_vectors};
    broadcast(&facts_, 1, 0, ranks_.comm());
    clocks_ = Clocks(facts_.n_vectors);
    x_.resize(elements(matrix_.operand_count(), chain() ? 1 : facts_.n_vectors));
    y_.resize(elements(matrix_.mine().rows, facts_.n_vectors));
    halo_.resize(static_cast<std::size_t>(matrix_.needed()));
    measure_whole_ = [this] { measure_root_to_root(); };
  }

  static std::optional<std::string> refuse(const SpmvProblem<T>& /*problem*/, Exec& exec) {
    return needs_ranks(exec);
  }
  static Cost cost(const SpmvProblem<T>& problem) {
    // A once more on the ranks, and in the worst case all of x on each.
    const double entry = sizeof(Index) + sizeof(T);
    return problem_cost(problem).plus_memory(static_cast<double>(problem.a->nnz()) * entry +
                                             world_size() * static_cast<double>(problem.a->cols) *
                                                 (2 * sizeof(T) + sizeof(Index)));
  }

  void load(const SpmvOperands<T>& operands) override {
    if (ranks_.rank() == 0) root_x_ = operands.x.data.data();
    scatter_x();
  }
  void reset() override { poison(y_); }

  void run() override {
    const auto start = std::chrono::steady_clock::now();
    const Offset sent = bytes_sent();
    double compute = 0;
    for (Index j = 0; j < facts_.n_vectors; ++j) {
      const T* x = chain() && j > 0 ? y_.data() + elements(matrix_.mine().rows, j - 1)
                                    : x_.data() + elements(matrix_.operand_count(), chain() ? 0 : j);
      compute += product(x, y_.data() + elements(matrix_.mine().rows, j));
    }
    bytes_.exchange = bytes_sent() - sent;
    clocks_.add({compute, seconds_since(start), -1});
    clocks_.set_bytes(bytes_);
  }

  Dense<T> fetch() override {
    Dense<T> y;
    if (ranks_.rank() == 0) y = Dense<T>(matrix_.whole_rows(), facts_.n_vectors, Layout::col_major);
    gather_y(y.data.data());
    return y;
  }

  std::vector<Metric> metrics() const override {
    measure_whole_();
    std::vector<Metric> out = clocks_.metrics(ranks_.comm());
    out.push_back({"imbalance", matrix_.imbalance(), ""});
    out.push_back({"cores", static_cast<double>(cores_here().cores), ""});
    out.push_back({"ranks_per_core", oversubscription(ranks_), ""});
    return out;
  }

 protected:
  /// y = A x on this rank: x is what it holds of the operand, y its rows. Brings what it lacks of x into
  /// `halo_`. Returns the seconds of this rank's own multiplications.
  virtual double product(const T* x, T* y) = 0;

  Phase phase(const char* name) { return Phase(exec_, name); }

  HaloMatrix<T> matrix_;
  Buffer<T> halo_;  ///< the elements of x that this rank's rows need, its own among them

 private:
  bool chain() const { return facts_.mode == Mode::chain; }
  static std::size_t elements(Index rows, Index vectors) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(vectors);
  }

  void scatter_x() {
    const std::vector<Offset> bounds(matrix_.operand_rows().begin(), matrix_.operand_rows().end());
    const Offset sent = bytes_sent();
    for (Index j = 0; j < (chain() ? 1 : facts_.n_vectors); ++j)
      scatter(root_x_ == nullptr ? nullptr : root_x_ + elements(matrix_.operand_rows().back(), j),
              x_.data() + elements(matrix_.operand_count(), j), bounds, 0, ranks_.comm());
    bytes_.scatter = bytes_sent() - sent;
  }

  void gather_y(T* whole) {
    const std::vector<Offset> bounds(matrix_.rows().begin(), matrix_.rows().end());
    const Offset sent = bytes_sent();
    for (Index j = 0; j < facts_.n_vectors; ++j)
      gather(y_.data() + elements(matrix_.mine().rows, j),
             whole == nullptr ? nullptr : whole + elements(matrix_.whole_rows(), j), bounds, 0,
             ranks_.comm());
    bytes_.gather = bytes_sent() - sent;
  }

  /// The clock of a user whose x and y are on rank 0, which run() isn't. The first time is the warm-up.
  void measure_root_to_root() {
    Dense<T> y;
    if (ranks_.rank() == 0) y = Dense<T>(matrix_.whole_rows(), facts_.n_vectors, Layout::col_major);
    for (int k = 0; k < 4; ++k) {
      check(MPI_Barrier(ranks_.comm()), "starting together");
      const auto start = std::chrono::steady_clock::now();
      scatter_x();
      run();
      gather_y(y.data.data());
      if (k > 0) clocks_.add({-1, -1, seconds_since(start)});
    }
    clocks_.set_bytes(bytes_);
  }

  struct Facts {
    Mode mode = Mode::single;
    Index n_vectors = 1;
  };

  Exec& exec_;
  MpiCommunicator& ranks_;
  Facts facts_;
  const T* root_x_ = nullptr;  // rank 0
  Buffer<T> x_, y_;            // this rank's rows, vector after vector
  Clocks clocks_;
  RunBytes bytes_;
  std::function<void()> measure_whole_;  // for metrics(), which is const and has to run the plan
};

}  // namespace stages::mpi
