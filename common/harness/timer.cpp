// The clock of the runner: samples the entries of a problem in turn, until each is known well enough.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <thread>

#include "common/harness/device_watch.hpp"
#include "common/harness/runner_parts.hpp"
#include "common/harness/seconds.hpp"

namespace stages::running {
namespace {

constexpr double kShortestSample = 1e-4;  ///< runs shorter than this are repeated within a sample, seconds
constexpr std::size_t kMostPrepares = 4;
constexpr std::size_t kMostTraced = 15;  ///< samples of the device's busy time
/// What a device gets to recover before a sample is taken again: longer than Exec::state is old.
constexpr std::chrono::milliseconds kRecovery{30};
/// Seconds that an entry may spend on that, whatever its time budget is.
constexpr double kLeastToTakeAgain = 2;

template <class Problem>
int products_per_run(const Problem& problem) {
  if constexpr (Problem::kOp == Op::spmv) return problem.n_vectors;
  return 1;
}

/// One entry while it is timed.
template <class Problem>
struct Timed {
  const Entry* entry;
  ResultRow* row;
  Exec* exec;
  std::unique_ptr<Plan<Problem>> plan = nullptr;
  std::function<void()> run = {};  ///< as Exec::record gave it
  int repeats = 1;                 ///< runs in a sample
  double spent = 0;                ///< seconds of samples so far
  int runs = 0;                    ///< runs that the phases are summed over
  DeviceWatch watch;               ///< whether its samples count
  bool finished = false;
};

/// Times the entries of one problem that passed the check, as many as fit into memory together.
template <class Problem>
class Timer {
 public:
  Timer(const Problem& problem, const Machine& machine, const RunOptions& options, const RunEvents& events)
      : problem_(problem), machine_(machine), options_(options), events_(events) {
    if (ranks().rank() == 0) operands_ = make_operands(problem, ValueKind::real, options.check.seed + 1);
  }

  /// Prepares, warms up, and finds out how many runs make a sample. The row says a failure.
  void add(const Entry& entry, ResultRow& row) {
    Exec& exec = machine_.of(entry);
    Timed<Problem> timed{
        .entry = &entry,
        .row = &row,
        .exec = &exec,
        .watch = {options_.least_clock_mhz, std::max(kLeastToTakeAgain, 5 * options_.time_budget)}};
    guarded(row, ranks(), [&] { prepare(timed); });
    if (row.status == Status::good) group_.push_back(std::move(timed));
  }

  /// Samples all entries in turn until each is known well enough or has used its time, then traces and fetches.
  void sample_all() {
    began_ = std::chrono::steady_clock::now();
    while (std::any_of(group_.begin(), group_.end(), [](const auto& t) { return !t.finished; })) {
      for (auto& timed : group_) {
        if (!timed.finished) guarded(*timed.row, ranks(), [&] { sample(timed); });
        if (timed.row->status != Status::good) timed.finished = true;
      }
    }
    for (auto& timed : group_) {
      if (timed.row->status == Status::good)
        guarded(*timed.row, ranks(), [&] {
          trace(timed);
          finish(timed);
        });
    }
    group_.clear();
  }

 private:
  void prepare(Timed<Problem>& timed) {
    Exec& exec = *timed.exec;
    auto& plan = timed.plan;
    // Some times where it is short, and not the first then, which also loads kernels.
    std::vector<double> prepares;
    double spent = 0;
    do {
      plan = nullptr;
      prepares.push_back(
          exec.time([&] { plan = timed.entry->template on<Problem>().prepare(problem_, exec); }));
      spent += prepares.back();
    } while (prepares.size() < kMostPrepares && ranks().agreed(spent < options_.time_budget / 10));
    if (prepares.size() > 1) prepares.erase(prepares.begin());
    const bool once_only = prepares.size() == 1;
    const Summary of_all = summarize(std::move(prepares));
    timed.row->prepare = of_all.median;
    timed.row->prepare_noise =
        once_only ? std::numeric_limits<double>::infinity() : (of_all.max - of_all.min) / 2 / of_all.median;
    timed.row->load = exec.time([&] { plan->load(operands_); });
    plan->reset();
    double once = exec.time([&] { plan->run(); });
    if (takes_too_long(*timed.row, once, options_, ranks())) return;
    timed.run = exec.record([plan = plan.get()] { plan->run(); });
    const char* const percent = std::getenv("STAGES_SLOWER");  // for tools/same-again.sh
    if (percent != nullptr && !timed.entry->is_vendor())
      timed.run = exec.slower(timed.run, std::atof(percent) / 100);
    for (int i = 0; i < 2 && once < 0.5; ++i) {
      if (starts_from_c0(problem_)) plan->reset();
      once = exec.time(timed.run);
    }
    if (!options_.cold && !starts_from_c0(problem_))
      timed.repeats =
          static_cast<int>(std::clamp(std::ceil(kShortestSample / std::max(once, 1e-9)), 1.0, 1000.0));
  }

  /// What a sample begins with: C0, and the caches as a run finds them.
  void make_ready(Timed<Problem>& timed) {
    if (starts_from_c0(problem_)) timed.plan->reset();
    if (options_.cold) {
      timed.exec->flush_caches();
    } else if (group_.size() > 1 && timed.row->run.median < 0.01) {
      timed.run();  // the plan before this one left the caches with its own data
      if (starts_from_c0(problem_)) timed.plan->reset();
    }
  }

  static void run_sample(const Timed<Problem>& timed) {
    for (int i = 0; i < timed.repeats; ++i) timed.run();
  }

  /// For how long the device is busy: at most as many samples as of the whole, in at most half of their time.
  void trace(Timed<Problem>& timed) {
    ResultRow& row = *timed.row;
    const double one = row.run.median * timed.repeats * products_per_run(problem_);
    const auto enough = [&](const std::vector<double>& busy) {
      const double n = static_cast<double>(busy.size());
      return ranks().agreed(busy.size() >= std::min(kMostTraced, row.run.samples.size()) ||
                            (busy.size() >= 3 && n * one > options_.time_budget / 2));
    };
    std::vector<double> busy =
        timed.exec->trace([&] { make_ready(timed); }, [&] { run_sample(timed); }, enough);
    for (double& seconds : busy) seconds /= timed.repeats * products_per_run(problem_);
    row.busy = summarize(std::move(busy));
  }

  void sample(Timed<Problem>& timed) {
    ResultRow& row = *timed.row;
    Exec& exec = *timed.exec;
    make_ready(timed);
    exec.clear_phases();
    const auto start = std::chrono::steady_clock::now();
    const double seconds = exec.time([&] { run_sample(timed); });
    if (does_not_count(timed, start)) return;
    for (const PhaseTime& phase : exec.phases()) add_phase(row.phases, phase.name, phase.seconds);
    timed.runs += timed.repeats;
    timed.spent += seconds;
    add_sample(row, seconds / timed.repeats / products_per_run(problem_));
    timed.finished = enough(timed);
    if (events_.timing) events_.timing(row);
  }

  /// Whether the sample just taken, which began at `start`, does not count, because something held the device
  /// back, on any rank. The device has had time to recover then: at rest where it was too hot or drew too much,
  /// and at work where its clock has yet to rise, but for several ranks, which rest.
  bool does_not_count(Timed<Problem>& timed, std::chrono::steady_clock::time_point start) {
    using Verdict = DeviceWatch::Verdict;
    const DeviceState state = timed.exec->state();
    const auto verdict = static_cast<Verdict>(ranks().max(static_cast<double>(timed.watch.judge(state))));
    if (verdict == Verdict::counts) {
      timed.watch.count(state);
      return false;
    }
    if (verdict == Verdict::too_slow) {
      give_up(*timed.row, Status::skipped, timed.watch.why_too_slow(state));
      return true;
    }
    if (state.is_held_back() || ranks().size() > 1) {
      std::this_thread::sleep_for(kRecovery);
    } else {
      const auto end = std::chrono::steady_clock::now() + kRecovery;
      while (std::chrono::steady_clock::now() < end) {
        if (starts_from_c0(problem_)) timed.plan->reset();
        timed.exec->time(timed.run);
      }
    }
    timed.watch.take_again(state, seconds_since(start));
    return true;
  }

  /// Rank 0 decides.
  bool enough(const Timed<Problem>& timed) {
    const int n = static_cast<int>(timed.row->run.samples.size());
    const int least = options_.min_samples;
    const bool known =
        n >= least && timed.row->run.noise <= options_.max_noise && seconds_since(began_) >= options_.spread;
    const double fastest = timed.row->run.min * timed.repeats * products_per_run(problem_);
    const bool used_up = time_is_over(n, least, timed.spent, fastest, options_.time_budget);
    return ranks().agreed(known || used_up || n >= options_.max_samples);
  }

  void finish(Timed<Problem>& timed) {
    ResultRow& row = *timed.row;
    Plan<Problem>& plan = *timed.plan;
    typename Problem::Result result;
    row.fetch = timed.exec->time([&] { result = plan.fetch(); });
    if constexpr (Problem::kOp == Op::spgemm) note_result(row, problem_, result.nnz());
    row.note = plan.note();
    row.metrics = plan.metrics();
    for (const Metric& feature : plan.looked_at)
      row.metrics.push_back({"feature_" + feature.name, feature.value, feature.unit});
    if (row.is_host_bound()) row.add_note("host-bound");
    if (ranks().rank() == 0) check_last(timed, result);
    for (PhaseTime& phase : row.phases) phase.seconds /= timed.runs * products_per_run(problem_);
    timed.watch.tell(row, ranks());
    if (ranks().rank() != 0 || row.status != Status::good) return;
    relate_to_cost(row, row.run.median * products_per_run(problem_), *timed.exec);
  }

  /// What the timed runs left has to be right, too.
  void check_last(Timed<Problem>& timed, const typename Problem::Result& result) {
    ResultRow& row = *timed.row;
    const CheckReport last =
        verify(problem_, operands_, result, ValueKind::real, timed.entry->claims, options_.check);
    if (options_.check_once) {
      row.check = last;
      row.checked = true;
    }
    judge(row, last.passed() ? "" : last.failure + " (after the timed runs)", last.void_because());
  }

  Communicator& ranks() { return machine_.host.communicator(); }

  const Problem& problem_;
  const Machine& machine_;
  const RunOptions& options_;
  const RunEvents& events_;
  typename Problem::Operands operands_;
  std::vector<Timed<Problem>> group_;
  std::chrono::steady_clock::time_point began_;  ///< when sampling did
};

}  // namespace

template <class Problem>
void time_rows(const Problem& problem, std::span<const Entry* const> entries, const Machine& machine,
               const RunOptions& options, const RunEvents& events, std::span<ResultRow> rows) {
  Communicator& ranks = machine.host.communicator();
  const Problem timed_problem =
      ranks.rank() == 0 ? with_values(problem, ValueKind::real, options.check.seed) : problem;
  Timer<Problem> timer(timed_problem, machine, options, events);
  std::map<const Exec*, double> held;  // bytes of the plans in the timer
  for (std::size_t k = 0; k < entries.size(); ++k) {
    ResultRow& row = rows[k];
    if (!to_time(row)) continue;
    Exec& exec = machine.of(*entries[k]);
    const double limit = options.max_memory > 0 ? options.max_memory : exec.memory_limit();
    const double memory = row.cost.memory;
    if (ranks.agreed(held[&exec] > 0 && held[&exec] + memory > limit)) {
      timer.sample_all();
      held.clear();
    }
    held[&exec] += memory;
    timer.add(*entries[k], row);
  }
  timer.sample_all();
}

#define STAGES_INSTANTIATE(P)                                                                         \
  template void time_rows(const P&, std::span<const Entry* const>, const Machine&, const RunOptions&, \
                          const RunEvents&, std::span<ResultRow>);
STAGES_FOR_EACH_PROBLEM(STAGES_INSTANTIATE)

}  // namespace stages::running
