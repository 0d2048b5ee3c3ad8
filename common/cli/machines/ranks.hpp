#pragma once
// The processes that run this program together: those that mpirun has started, or this one alone. MPI is
// started only under mpirun, so a program that is not never touches it.
//
// Rank 0 leads: it reads files, decides and prints. For each problem it broadcasts an Order, and the other
// ranks, which wait for orders, take part in that run.

#include <memory>
#include <string>

#include "common/harness/runner.hpp"

namespace stages {

/// What the others need to know of a problem before rank 0 leads them through it: all but the matrices.
struct Order {
  bool stop = false;  ///< there are no more problems
  Op op = Op::spmv;
  bool single_precision = true;
  Mode mode = Mode::single;
  Index products = 1;
  Index n_cols = 1;
  double alpha = 1, beta = 0;
  Destination destination = Destination::host;
};

/// For who starts so many ranks here, by the variables that Open MPI reads: which cores they may have. Where
/// these suffice each rank has as many neighbouring ones as there are for each: two that a machine calls cores
/// may be threads of one. Where not, ranks that wait must give way, and bound ones could not spread.
void bind_ranks(int ranks);

class Ranks {
 public:
  /// Whether this program was built with MPI.
  static bool can_be_started();
  /// Under mpirun: starts MPI. Collective.
  Ranks();
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  bool started() const { return state_ != nullptr; }  ///< true under mpirun, also with a single rank
  bool root() const { return rank_ == 0; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Why nothing can be done on them: then nothing but abort() may follow. Empty: it can.
  std::string problem() const;

  /// Where entries for several ranks run. Collective at the first call; only where started().
  Exec& exec();
  /// exec(), its copies measured, and the GPUs of all ranks where `gpu` asks for them, the same on all ranks.
  /// Collective at the first call, and at the first that asks for GPUs.
  Machine machine(bool gpu);
  /// Gives rank 0's order to all.
  Order tell(Order order);
  /// Ends all ranks: `text` on stderr, once, and the exit code. Only where started().
  [[noreturn]] void abort(const std::string& text, int code);

 private:
  struct State;
  std::unique_ptr<State> state_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace stages
