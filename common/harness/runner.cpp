#include "common/harness/runner.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <thread>

#include "common/harness/build_info.hpp"
#include "common/harness/device_watch.hpp"
#include "common/harness/machine.hpp"
#include "common/harness/runner_parts.hpp"
#include "common/harness/seconds.hpp"
#include "common/matrix/memory.hpp"
#include "common/matrix/processors.hpp"

namespace stages {

using namespace running;

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
  if constexpr (Problem::kOp == Op::spmv) return problem.products;
  return 1;
}

/// Of a dense result; of a sparse one the rows.
template <class Problem>
double result_elements(const Problem& problem) {
  const double rows = problem.a->rows;
  if constexpr (Problem::kOp == Op::spmv) return rows * (problem.mode == Mode::chain ? 1 : problem.products);
  if constexpr (Problem::kOp == Op::spmm) return rows * problem.n_cols;
  return rows;
}

}  // namespace

template <class Problem>
std::string refusal(const Entry& entry, const Problem& problem, const Machine& machine,
                    const RunOptions& options, Cost* to_tell) {
  if (entry.needs.gpu && machine.gpu == nullptr) return "needs a GPU, and " + machine.no_gpu;
  double on_host = 0;  // of C: no entry is the sum of more products than a row of A has entries
  if constexpr (Problem::kOp == Op::spgemm) {
    if (problem.rounds > 1 && !entry.chains) return "cannot take its C for the next A: it is not for chains";
    const Offset entries = problem.products / std::max<Offset>(1, problem.a->longest_row());
    if (entry.needs.gpu) on_host = static_cast<double>(entries) * (4 + sizeof(typename Problem::Value));
  }
  Exec& exec = machine.of(entry);
  const int ranks = exec.communicator().size();
  if (!entry.needs.several_ranks && ranks > 1)
    return fmt::format("runs on one rank, and there are {}", ranks);
  const Offer<Problem> offer = entry.on<Problem>().look(problem, exec);
  if (const auto reason = offer.refuse(problem, exec)) return *reason;
  const Cost cost = offer.cost(problem);
  if (to_tell != nullptr) *to_tell = cost;
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const bool whole_check = !options.check_once || exec.simulated();
  const bool check_on_host = whole_check && (!entry.needs.gpu || exec.simulated());
  const double with_check = check_on_host ? cost.memory + check_bytes(problem) : 0;
  const double memory = options.max_memory > 0 ? options.max_memory : exec.memory_limit();
  struct Limit {
    double needed, most;
    std::string (*words)(double);
    const char *what, *limit;
  };
  for (const auto& [needed, most, words, what, limit] : {
           Limit{cost.memory, memory, format_bytes, "of memory", "the limit is {} (--max-memory)"},
           {on_host > 0 && exec.simulated() ? on_host + cost.memory : on_host,
            options.max_memory > 0 ? options.max_memory : static_cast<double>(available_memory()),
            format_bytes, "of memory on the host, for C", "the limit is {} (--max-memory)"},
           {with_check, options.max_memory > 0 ? options.max_memory : kNone, format_bytes,
            "of memory with what its check takes", "the limit is {} (--max-memory)"},
           {with_check, static_cast<double>(available_memory()), format_bytes,
            "of memory with what its check takes", "and {} are free"},
           {exec.simulated() ? cost.work : 0, options.max_simulated_work, format_count, "steps",
            "the limit on the executor is {}: take a smaller matrix"},
           {cost.work, options.max_work, format_count, "steps", "the limit is {} (--max-work)"},
           // Dense operands may be far larger than the matrix.
           {(whole_check ? 3 : 1) * operand_elements(problem), options.max_work, format_count,
            "numbers as operands of its check", "the limit is {} (--max-work)"},
           {whole_check ? 3 * result_elements(problem) : 0, options.max_work, format_count,
            "numbers as results of its check", "the limit is {} (--max-work)"},
       }) {
    if (needed > most)
      return fmt::format("needs {} {}, {}", words(needed), what,
                         fmt::format(fmt::runtime(limit), words(most)));
  }
  return {};
}

namespace {

/// A plan, and its run as Exec::record gave it.
template <class Problem>
struct Prepared {
  std::unique_ptr<Plan<Problem>> plan = nullptr;
  std::function<void()> run = {};
};

/// One entry while it is timed.
template <class Problem>
struct Timed {
  const Entry* entry;
  ResultRow* row;
  Exec* exec;
  Prepared<Problem> prepared = {};
  int repeats = 1;    ///< runs in a sample
  double spent = 0;   ///< seconds of samples so far
  int runs = 0;       ///< runs that the phases are summed over
  DeviceWatch watch;  ///< whether its samples count
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
    auto& [plan, run] = timed.prepared;
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
    run = exec.record([plan = plan.get()] { plan->run(); });
    const char* const percent = std::getenv("STAGES_SLOWER");  // for tools/same-again.sh
    if (percent != nullptr && !timed.entry->is_peer()) run = exec.slower(run, std::atof(percent) / 100);
    for (int i = 0; i < 2 && once < 0.5; ++i) {
      if (starts_from_c0(problem_)) plan->reset();
      once = exec.time(run);
    }
    if (!options_.cold && !starts_from_c0(problem_))
      timed.repeats =
          static_cast<int>(std::clamp(std::ceil(kShortestSample / std::max(once, 1e-9)), 1.0, 1000.0));
  }

  /// What a sample begins with: C0, and the caches as a run finds them.
  void make_ready(Timed<Problem>& timed) {
    const Prepared<Problem>& next = timed.prepared;
    if (starts_from_c0(problem_)) next.plan->reset();
    if (options_.cold) {
      timed.exec->flush_caches();
    } else if (group_.size() > 1 && timed.row->run.median < 0.01) {
      next.run();  // the plan before this one left the caches with its own data
      if (starts_from_c0(problem_)) next.plan->reset();
    }
  }

  static void run_sample(const Timed<Problem>& timed) {
    for (int i = 0; i < timed.repeats; ++i) timed.prepared.run();
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
        if (starts_from_c0(problem_)) timed.prepared.plan->reset();
        timed.exec->time(timed.prepared.run);
      }
    }
    timed.watch.take_again(state, seconds_since(start));
    return true;
  }

  /// Runs the entry for a while and reads before and after what the device has drawn. Only on one rank, and not
  /// where each run needs a reset, which would draw, too.
  void measure_energy(Timed<Problem>& timed) {
    if (options_.energy_seconds <= 0 || ranks().size() > 1 || starts_from_c0(problem_)) return;
    Exec& exec = *timed.exec;
    exec.synchronize();
    const std::optional<double> before = exec.state(true).joules;
    if (!before) return;
    const auto start = std::chrono::steady_clock::now();
    double runs = 0;
    do {
      exec.time([&] { run_sample(timed); });
      runs += timed.repeats;
    } while (seconds_since(start) < options_.energy_seconds);
    const double taken = seconds_since(start);
    const std::optional<double> after = exec.state(true).joules;
    if (!after) return;
    std::vector<Metric>& metrics = timed.row->metrics;
    const double joules = *after - *before;
    metrics.push_back({.name = "joules", .value = joules / runs / products_per_run(problem_), .unit = "J"});
    metrics.push_back({.name = "watts", .value = joules / taken, .unit = "W"});
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
    Plan<Problem>& plan = *timed.prepared.plan;
    typename Problem::Result result;
    row.fetch = timed.exec->time([&] { result = plan.fetch(); });
    if constexpr (Problem::kOp == Op::spgemm) note_result(row, problem_, result.nnz());
    row.note = plan.note();
    row.metrics = plan.metrics();
    if (row.is_host_bound()) row.add_note("host-bound");
    if (ranks().rank() == 0) check_last(timed, result);
    for (PhaseTime& phase : row.phases) phase.seconds /= timed.runs * products_per_run(problem_);
    timed.watch.tell(row, ranks());
    if (ranks().rank() != 0 || row.status != Status::good) return;
    measure_energy(timed);
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

/// Whether the entry may run, then the check. The row says what came of it.
template <class Problem>
void admit(const Entry& entry, const Problem& problem, const Machine& machine, const RunOptions& options,
           ResultRow& row) {
  Communicator& ranks = machine.host.communicator();
  row.reason =
      ranks.agreed(ranks.rank() == 0 ? refusal(entry, problem, machine, options, &row.cost) : std::string());
  if (!row.reason.empty()) {
    row.status = Status::skipped;
    return;
  }
  if (options.check_once && !row.simulated) return;
  Exec& exec = machine.of(entry);
  within_time(row, exec, options, ranks, [&] {
    row.check = check_entry(entry, problem, exec, options.check);
    row.checked = true;
    judge(row, ranks.agreed(row.check.failure), ranks.agreed(row.check.void_because()));
    if (row.status != Status::good) return;
    row.note = row.check.note;
    row.metrics = row.check.metrics;
  });
}

/// Whether the clock is to run.
bool to_time(const ResultRow& row) { return row.status == Status::good && !row.simulated; }

/// Times the entries whose rows are good, side by side as far as memory holds them together. The values are
/// those of the real check, so a chain neither overflows nor vanishes.
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

}  // namespace

ResultRow row_of(const Entry& entry) {
  ResultRow row;
  row.entry = entry.name;
  row.idea = entry.idea;
  row.previous = entry.previous;
  row.peer = entry.is_peer();
  row.structure_reuse = entry.claims.structure_reuse;
  row.mpi = entry.needs.mpi;
  return row;
}

template <class Problem>
void run_problem(const Problem& problem, std::span<const Entry* const> entries, const Machine& machine,
                 const RunOptions& options, const RunEvents& events, Results& results) {
  if constexpr (Problem::kOp == Op::spgemm) {
    if (problem.rounds > 1) return run_chain(problem, entries, machine, options, events, results);
  }
  const std::size_t first = results.rows.size();
  const ProblemFacts facts = facts_of(problem);
  for (const Entry* entry : entries) {
    ResultRow& row = results.rows.emplace_back(row_of(*entry));
    row.problem = facts;
    row.simulated = machine.of(*entry).simulated();
    row.ranks = machine.host.communicator().size();
  }
  for (std::size_t k = 0; k < entries.size(); ++k) {
    ResultRow& row = results.rows[first + k];
    if (events.checking) events.checking(row);
    admit(*entries[k], problem, machine, options, row);
  }

  const std::span<ResultRow> rows = std::span(results.rows).subspan(first);
  if (std::any_of(rows.begin(), rows.end(), to_time))
    time_rows(problem, entries, machine, options, events, rows);
  relate_rows(rows);
  for (std::size_t k = first; events.done && k < results.rows.size(); ++k) events.done(results.rows[k]);
}

std::vector<std::pair<std::string, std::string>> run_context(const std::vector<std::string>& command_line,
                                                             const Machine& machine) {
  // Of files named from the root only the last part: where they lay says nothing elsewhere.
  std::string command;
  for (const std::string& word : command_line) {
    const bool from_the_root = word.starts_with('/');
    command += (command.empty() ? "" : " ") +
               (from_the_root ? std::filesystem::path(word).filename().string() : word);
  }
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  const BuildInfo& build = build_info();
  std::vector<std::pair<std::string, std::string>> context = {
      {"command", command},
      {"date", date},
      {"version", build.version},
      {"source_digest", build.source_digest},
      {"code", build.code},
      {"compiler", build.compiler},
      {"flags", build.flags},
      {"backend", build.backend},
      {"cpu", cpu_name()},
      {"cpus", fmt::format("{}", available_processors())},
      {"memory", format_bytes(total_memory_bytes())},
      {"system", system_name()},
      {"ranks", fmt::format("{}", machine.host.communicator().size())},
      {"copy_bandwidth_bytes_per_second", fmt::format("{:.4g}", machine.host.copy_bandwidth())},
      {"gpu", machine.gpu != nullptr ? machine.gpu->device() : machine.no_gpu},
  };
  if (most_copied_bytes() > 0)
    context.emplace_back("copied_bytes", fmt::format("{:.0f}, by STAGES_COPY_BYTES", most_copied_bytes()));
  if (machine.gpu != nullptr && !machine.gpu->simulated()) {
    context.emplace_back("gpu_copy_bandwidth_bytes_per_second",
                         fmt::format("{:.4g}", machine.gpu->copy_bandwidth()));
    for (auto& fact : machine.gpu->facts()) context.push_back(std::move(fact));
  }
  note_state(context, machine, "begin");
  return context;
}

void note_state(std::vector<std::pair<std::string, std::string>>& context, const Machine& machine,
                const char* when) {
  double load = 0;
  if (getloadavg(&load, 1) == 1)
    context.emplace_back(fmt::format("load_{}", when), fmt::format("{:.2f}", load));
  if (machine.gpu == nullptr) return;
  if (const auto mhz = machine.gpu->state(true).clock_mhz)
    context.emplace_back(fmt::format("gpu_sm_clock_mhz_{}", when), fmt::format("{:.0f}", *mhz));
}

#define STAGES_INSTANTIATE(P)                                                                           \
  template std::string refusal(const Entry&, const P&, const Machine&, const RunOptions&, Cost*);       \
  template void run_problem(const P&, std::span<const Entry* const>, const Machine&, const RunOptions&, \
                            const RunEvents&, Results&);
STAGES_FOR_EACH_PROBLEM(STAGES_INSTANTIATE)

}  // namespace stages
