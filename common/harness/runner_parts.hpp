#pragma once
// What the runner of single problems (runner.cpp, and timer.cpp with its clock) and that of chains (chain.cpp)
// share.

#include <new>

#include "common/harness/runner.hpp"
#include "common/matrix/error.hpp"

namespace stages::running {

template <class Problem>
ProblemFacts facts_of(const Problem& p) {
  ProblemFacts facts{.matrix = p.name, .op = Problem::kOp, .type = type_name<typename Problem::Value>()};
  if (p.a) {
    facts.rows = p.a->rows;
    facts.cols = p.a->cols;
    facts.nnz = p.a->nnz();
  }
  if constexpr (Problem::kOp == Op::spmv) {
    if (p.mode != Mode::single) facts.options = fmt::format("{} of {}", to_string(p.mode), p.n_vectors);
    facts.n_vectors = facts.result_cols = p.n_vectors;
    facts.multiplications = facts.nnz * p.n_vectors;
  } else if constexpr (Problem::kOp == Op::spmm) {
    facts.options = fmt::format("N = {}", p.n_cols);
    if (p.alpha != 1 || p.beta != 0) facts.options += fmt::format(", alpha = {}, beta = {}", p.alpha, p.beta);
    if (p.b_layout != Layout::row_major) facts.options += ", B " + to_string(p.b_layout);
    if (p.c_layout != Layout::row_major) facts.options += ", C " + to_string(p.c_layout);
    facts.result_cols = p.n_cols;
    facts.multiplications = facts.nnz * p.n_cols;
  } else {
    if (p.destination != Destination::host) facts.options = "C " + to_string(p.destination);
    if (p.b) facts.result_cols = p.b->cols;
    facts.multiplications = p.products;
  }
  return facts;
}

inline void give_up(ResultRow& row, Status status, std::string reason) {
  row.status = status;
  row.reason = std::move(reason);
  row.run = {};
}

/// Does `work`; what it throws becomes the fate of the row, and the run goes on. Not so where there are
/// several ranks, for the others wait in the middle of the work.
template <class Work>
void guarded(ResultRow& row, Communicator& ranks, Work&& work) {
  if (ranks.size() > 1) return work();
  try {
    work();
  } catch (const OutOfMemory& e) {
    give_up(row, Status::skipped, e.what());
  } catch (const std::bad_alloc&) {
    give_up(row, Status::skipped, "ran out of memory");
  } catch (const std::exception& e) {
    give_up(row, Status::failed, e.what());
  }
}

/// The fate of a row after a check: it found a failure, or could judge nothing for a reason, or all is good.
inline void judge(ResultRow& row, const std::string& failure, const std::string& nothing) {
  if (!failure.empty()) return give_up(row, Status::wrong, failure);
  if (nothing.empty()) return;
  row.checked = false;
  give_up(row, Status::skipped, nothing);
}

/// Gives the row up where a run takes longer than --max-seconds.
inline bool takes_too_long(ResultRow& row, double seconds, const RunOptions& options, Communicator& ranks) {
  const bool too_long = ranks.agreed(seconds > options.max_seconds);  // rank 0 decides
  if (too_long)
    give_up(row, Status::skipped,
            fmt::format("takes {} a run, the limit is {} (--max-seconds)", format_seconds(seconds),
                        format_seconds(options.max_seconds)));
  return too_long;
}

inline void add_sample(ResultRow& row, double seconds) {
  std::vector<double> samples = std::move(row.run.samples);
  samples.push_back(seconds);
  row.run = summarize(std::move(samples));
}

/// Whether samples, n of them, are to end for the time that they took; `one`: the fastest. Of two the median is
/// half of what disturbed one, so there are three, unless one takes all of the time.
inline bool time_is_over(int n, int least, double spent, double one, double budget) {
  return spent >= budget && (n >= least || (spent >= 5 * budget && (n >= 3 || one >= 5 * budget)));
}

/// The row gets nnz(C), and the bytes of its model those of a C of that size.
template <class T>
void note_result(ResultRow& row, const SpgemmProblem<T>& problem, Offset nnz) {
  row.result_nnz = nnz;
  constexpr double kEntry = sizeof(Index) + sizeof(T);
  row.cost.model_bytes += kEntry * static_cast<double>(nnz - problem.result_bound);
}

/// What a row says of its cost: a run took so many seconds.
inline void relate_to_cost(ResultRow& row, double seconds, Exec& exec) {
  row.gflops = row.cost.operations / seconds / 1e9;
  row.copy_bandwidth = exec.copy_bandwidth();
  row.bandwidth_share = row.cost.model_bytes / seconds / row.copy_bandwidth;
}

/// Does `check`, which may make the row good or not, and on the executor ends it after the time that it has.
template <class Check>
void within_time(ResultRow& row, Exec& exec, const RunOptions& options, Communicator& ranks, Check&& check) {
  exec.limit_time(options.max_simulated_seconds);
  guarded(row, ranks, check);
  if (row.status == Status::failed && exec.was_stopped()) {
    row.status = Status::skipped;
    row.reason = fmt::format(
        "its check was not done after {} on the executor, the limit (--max-seconds): take a smaller matrix",
        format_seconds(options.max_simulated_seconds));
  }
  exec.limit_time(std::numeric_limits<double>::infinity());
}

/// Whether the clock is to run.
inline bool to_time(const ResultRow& row) { return row.status == Status::good && !row.simulated; }

/// Times the entries whose rows are good, side by side as far as memory holds them together. The values are
/// those of the real check, so a chain neither overflows nor vanishes.
template <class Problem>
void time_rows(const Problem& problem, std::span<const Entry* const> entries, const Machine& machine,
               const RunOptions& options, const RunEvents& events, std::span<ResultRow> rows);

}  // namespace stages::running

namespace stages {

/// run_problem for a problem of several rounds. Every round is checked as a product of what the round before it
/// has left; then all entries are timed, in turn, each from A on through all of its rounds.
template <class T>
void run_chain(const SpgemmProblem<T>& problem, std::span<const Entry* const> entries, const Machine& machine,
               const RunOptions& options, const RunEvents& events, Results& results);

}  // namespace stages
