#pragma once
// The runner: decides for each entry on a problem whether it may run, checks it, times it, and writes a row.

#include <functional>
#include <limits>
#include <span>

#include "common/harness/results.hpp"

namespace stages {

struct RunOptions {
  double max_noise = 0.02;   ///< stop sampling an entry when its median is known this well (Summary::noise)
  double time_budget = 1.0;  ///< seconds of samples an entry may take on a problem, beyond the least count
  int min_samples = 7;
  /// Seconds over which the samples of a problem lie at least: all of them know what disturbs it.
  double spread = 0.1;
  int max_samples = 500;
  double max_memory = 0;  ///< bytes a plan may allocate; 0: Exec::memory_limit()
  /// Elementary steps of one run (Cost::work) beyond which an entry is skipped; also of numbers drawn.
  double max_work = 4e9;
  /// Seconds of one run beyond which an entry is skipped. What a run takes shows when it is made, so the
  /// first is made all the same, and those of the check before the clock (see check_once).
  double max_seconds = std::numeric_limits<double>::infinity();
  double max_simulated_work = 2.5e7;  ///< the same on the executor, which runs a thread at a time
  /// Seconds that a check may take on the executor, where nothing is timed, before it is stopped.
  double max_simulated_seconds = 60;
  /// Samples count only at a clock of at least so many MHz (Exec::state); 0: at any.
  double least_clock_mhz = 0;
  bool cold = false;  ///< flush the caches before each sample
  /// Leave out the check before the clock (four runs with real values, one with integers) and verify only
  /// what the timed runs leave, with real values: for large problems of entries that were checked on smaller
  /// ones. Where nothing is timed, on the executor, the whole check runs.
  bool check_once = false;
  CheckOptions check;
};

/// What the runner tells while it works; each may be empty.
struct RunEvents {
  std::function<void(const ResultRow&)> checking;  ///< an entry begins; the row holds its name and problem
  std::function<void(const ResultRow&)> timing;    ///< a sample was taken: the row holds the samples so far
  std::function<void(const ResultRow&)> done;      ///< the row is final, but for its relation to the others
};

/// Where entries run: those that need a GPU on `gpu`, the others on `host`. An Exec alone has no GPU.
struct Machine {
  Machine(Exec& host_) : host(host_) {}  // NOLINT: a host alone is a machine
  Machine(Exec& host_, Exec& gpu_) : host(host_), gpu(&gpu_) {}
  Machine(Exec& host_, std::string why_no_gpu) : host(host_), no_gpu(std::move(why_no_gpu)) {}

  Exec& of(const Entry& entry) const { return entry.needs.gpu && gpu != nullptr ? *gpu : host; }
  bool is_simulated() const { return gpu != nullptr && gpu->simulated(); }

  Exec& host;
  Exec* gpu = nullptr;
  std::string no_gpu = "there is none here";  ///< completes "needs a GPU, and ..."
};

/// Why an entry may not run a problem: a limit or a need, with the number that rules it out. Empty: it may.
/// `cost` gets what it costs where it does not refuse.
template <class Problem>
std::string refusal(const Entry& entry, const Problem& problem, const Machine& machine,
                    const RunOptions& options, Cost* cost = nullptr);

/// The row of an entry before anything is known of it; its problem is empty.
ResultRow row_of(const Entry& entry);

/// Runs `entries` (all of Problem's operation) on `problem` and appends a row for each, in their order. What
/// one throws ends it, not the run: its row says failed. With several ranks it is thrown. Collective.
template <class Problem>
void run_problem(const Problem& problem, std::span<const Entry* const> entries, const Machine& machine,
                 const RunOptions& options, const RunEvents& events, Results& results);

/// The facts that every result file carries. Of a file named from the root, the command shows the last part.
std::vector<std::pair<std::string, std::string>> run_context(const std::vector<std::string>& command_line,
                                                             const Machine& machine);
/// Adds the system's load (of the last minute) and the GPU's clock to them, `when` ("begin", "end").
void note_state(std::vector<std::pair<std::string, std::string>>& context, const Machine& machine,
                const char* when);

}  // namespace stages
