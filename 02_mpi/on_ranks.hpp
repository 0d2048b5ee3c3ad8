#pragma once
// What products with a dense operand share on ranks: all matrices lie on the ranks by rows, rank 0 deals the
// dense operand and gathers the result, and three clocks run. An entry adds how one product is made.

#include <functional>

#include "02_mpi/halo.hpp"
#include "common/mpi/check.hpp"
#include "common/mpi/clocks.hpp"
#include "common/mpi/exec.hpp"
#include "common/mpi/session.hpp"
#include "common/mpi/transfer.hpp"

namespace stages::mpi {

/// `Plan`: SpmvPlan<T> or SpmmPlan<T>.
template <class T, class Plan>
class OnRanks : public Plan {
 public:
  static constexpr Needs kNeeds = {.several_ranks = true, .mpi = true};

  static std::optional<std::string> refuse(const typename Plan::Problem& /*problem*/, Exec& exec) {
    return needs_ranks(exec);
  }

  void run() override {
    const auto start = std::chrono::steady_clock::now();
    const Offset sent = bytes_sent();
    const double compute = products();
    bytes_.exchange = bytes_sent() - sent;
    clocks_.add({compute, seconds_since(start), -1});
    clocks_.set_bytes(bytes_);
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
  OnRanks(const Csr<T>* a, Exec& exec)
      : exec_(exec), ranks_(*ranks_of(exec)), matrix_(a, ranks_), measure_whole_([this] { measure(); }) {}

  /// All products of a run; returns the seconds of this rank's own multiplications.
  virtual double products() = 0;
  /// From rank 0 to the ranks, and the result back to where rank 0 wants it.
  virtual void scatter_operands() = 0;
  virtual void gather_result() = 0;

  Phase phase(const char* name) { return Phase(exec_, name); }
  bool root() const { return ranks_.rank() == 0; }
  Exec& exec_;
  MpiCommunicator& ranks_;
  HaloMatrix<T> matrix_;
  Buffer<T> halo_;  ///< the elements (rows) of the operand that this rank's rows need, its own among them
  Clocks clocks_;
  RunBytes bytes_;

 private:
  /// The clock of a user whose operands and result are on rank 0, which run() isn't. The first time is the
  /// warm-up.
  void measure() {
    for (int k = 0; k < 4; ++k) {
      check(MPI_Barrier(ranks_.comm()), "starting together");
      const auto start = std::chrono::steady_clock::now();
      scatter_operands();
      run();
      gather_result();
      if (k > 0) clocks_.add({-1, -1, seconds_since(start)});
    }
    clocks_.set_bytes(bytes_);
  }

  std::function<void()> measure_whole_;  // for metrics(), which is const and has to run the plan
};

}  // namespace stages::mpi
