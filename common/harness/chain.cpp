// SpGEMM in a chain: C_1 = A B, C_2 = C_1 B, and so on. The C of a round is the next round's A, where it lies
// (Plan::advance): nothing is fetched, dealt or prepared between two rounds unless the plan itself does it.
//
// Each round is a row of its own, whose problem is the product of that round, with the A that it has. A round
// that a limit or the entry itself rules out is the entry's last row, with the reason.

#include <algorithm>
#include <map>

#include "common/harness/check_parts.hpp"
#include "common/harness/runner_parts.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages {
namespace {

using namespace running;

/// An entry on its way through the rounds.
template <class T>
struct Runner {
  const Entry* entry;
  Exec* exec;
  std::vector<ResultRow> rows = {};  ///< of its rounds; where one was not good there is none after it
  std::unique_ptr<SpgemmPlan<T>> plan = nullptr;  ///< while it is timed
  std::size_t round = 0;                          ///< the one under way
  double spent = 0;                               ///< seconds of samples so far
  bool finished = false;

  /// Those that may be run.
  std::size_t rounds() const {
    return static_cast<std::size_t>(std::ranges::count(rows, Status::good, &ResultRow::status));
  }
  bool is_bad() const { return rows.back().is_bad(); }
  /// If that is no good fate the chain ends with the round under way.
  void end_with(const ResultRow& fate) {
    if (fate.status == Status::good) return;
    rows.resize(round + 1);
    give_up(rows.back(), fate.status, fate.reason);
  }
};

template <class T>
class Chain {
 public:
  Chain(const SpgemmProblem<T>& problem, const Machine& machine, const RunOptions& options,
        const RunEvents& events)
      : problem_(problem), machine_(machine), options_(options), events_(events) {}

  /// Rank 0's `problem`, and the operands that a round multiplies.
  struct Round {
    SpgemmProblem<T> problem;
    SpgemmOperands<T> operands;
  };

  /// The whole check of an entry. Its rows are then those of the rounds that it has.
  void check(Runner<T>& runner) {
    add_row(runner, problem_, 0);
    if (runner.rounds() == 0) return;
    ResultRow fate;
    within_time(fate, *runner.exec, options_, ranks(), [&] {
      check_reals(runner);
      if (!options_.check_once || runner.exec->simulated()) check_integers(runner);
    });
    runner.end_with(fate);
  }

  void time(std::span<Runner<T>> runners) {
    std::map<const Exec*, double> held;
    std::vector<Runner<T>*> together;
    for (Runner<T>& runner : runners) {
      const std::size_t rounds = runner.rounds();
      if (rounds == 0 || runner.rows.front().simulated) continue;
      double memory = 0;
      for (std::size_t r = 0; r < rounds; ++r) memory = std::max(memory, runner.rows[r].cost.memory);
      const double limit = options_.max_memory > 0 ? options_.max_memory : runner.exec->memory_limit();
      if (ranks().agreed(held[runner.exec] > 0 && held[runner.exec] + memory > limit)) {
        sample_all(together);
        held.clear();
      }
      held[runner.exec] += memory;
      attempt(runner, [&] { prepare(runner); });
      together.push_back(&runner);
    }
    sample_all(together);
  }

 private:
  using Result = std::shared_ptr<const Csr<T>>;

  Communicator& ranks() { return machine_.host.communicator(); }
  bool root() { return ranks().rank() == 0; }

  /// The row of a round, and whether there may be such a round.
  void add_row(Runner<T>& runner, const SpgemmProblem<T>& problem, std::size_t round) {
    ResultRow& row = runner.rows.emplace_back(row_of(*runner.entry));
    row.problem = facts_of(problem);
    row.problem.round = static_cast<Index>(round) + 1;
    std::string& words = row.problem.options;
    words += fmt::format("{}round {} of {}", words.empty() ? "" : ", ", round + 1, problem_.rounds);
    row.simulated = runner.exec->simulated();
    row.ranks = ranks().size();
    if (root()) {
      row.reason = refusal(*runner.entry, problem, machine_, options_, &row.cost);
      if (row.reason.empty()) row.reason = too_long(runner);
    }
    row.reason = ranks().agreed(row.reason);
    if (!row.reason.empty()) row.status = Status::skipped;
  }

  /// Why the rounds together are too much.
  std::string too_long(const Runner<T>& runner) const {
    double steps = 0;
    for (const ResultRow& row : runner.rows) steps += row.cost.work;
    const double most = runner.exec->simulated() ? std::min(options_.max_work, options_.max_simulated_work)
                                                 : options_.max_work;
    if (steps <= most) return {};
    return fmt::format("takes, with the rounds before it, {} steps; the limit is {} (--max-work)",
                       format_count(steps), format_count(most));
  }

  /// Does `work`; what it throws ends the chain.
  template <class Work>
  void attempt(Runner<T>& runner, Work work) {
    ResultRow fate;
    guarded(fate, ranks(), work);
    runner.end_with(fate);
  }

  std::unique_ptr<SpgemmPlan<T>> plan_of(const Runner<T>& runner) const {
    return runner.entry->template on<SpgemmProblem<T>>().prepare(problem_, *runner.exec);
  }

  /// Three chains: of one set of operands, of another, and of the first again.
  void check_reals(Runner<T>& runner) {
    const auto plan = plan_of(runner);
    const Result first = check_rounds(runner, *plan, ValueKind::real, 1);
    if (options_.check_once && !runner.exec->simulated()) return;
    check_rounds(runner, *plan, ValueKind::real, 2);
    const Result again = check_rounds(runner, *plan, ValueKind::real, 1);
    if (runner.is_bad() || !runner.entry->claims.bitwise_reproducible) return;
    ResultRow fate;
    if (!ranks().agreed(!root() || checking::same_bits(*first, *again)))
      give_up(fate, Status::wrong,
              "the same operands gave other bits in another chain, and the entry claims that they cannot");
    runner.end_with(fate);
  }

  /// Two chains: every round looked at, and the last one alone, as nothing is fetched between timed rounds.
  void check_integers(Runner<T>& runner) {
    if (runner.is_bad()) return;
    const auto plan = plan_of(runner);
    check_rounds(runner, *plan, ValueKind::integer, 1);
    const std::size_t rounds = runner.rounds();
    if (runner.is_bad() || rounds < 2) return;
    const Round first = first_round(ValueKind::integer, 1);
    plan->load(first.operands);
    for (std::size_t r = 0; r < rounds; ++r) run_round(runner, *plan, r);
    judge_round(runner, *plan, plan->fetch(), ValueKind::integer);
  }

  Round first_round(ValueKind kind, std::uint64_t seed) {
    if (!root()) return {problem_, {}};
    return {problem_, make_operands(problem_, kind, options_.check.seed + seed)};
  }

  static void run_round(Runner<T>& runner, SpgemmPlan<T>& plan, std::size_t round) {
    runner.round = round;
    if (round > 0) plan.advance();
    plan.reset();
    plan.run();
    runner.exec->synchronize();
  }

  /// All rounds, each verified. Which there are is found out in the first pass; after a later one at_ is what
  /// the last of them multiplied. Returns its C.
  Result check_rounds(Runner<T>& runner, SpgemmPlan<T>& plan, ValueKind kind, std::uint64_t seed) {
    if (runner.is_bad()) return {};
    runner.round = 0;
    const Round first = at_ = first_round(kind, seed);
    plan.load(first.operands);
    Result c;
    for (std::size_t r = 0; r < static_cast<std::size_t>(problem_.rounds); ++r) {
      if (r < runner.rows.size() && runner.rows[r].status != Status::good) break;
      if (r > 0 && root()) {
        at_.problem = next_round<T>(at_.problem, c);
        at_.operands.a_values = c->values;
      }
      if (r == runner.rows.size()) add_row(runner, at_.problem, r);
      if (runner.rows[r].status != Status::good) break;
      run_round(runner, plan, r);
      c = std::make_shared<const Csr<T>>(plan.fetch());
      judge_round(runner, plan, *c, kind);
      if (runner.rows[r].status != Status::good) break;
    }
    return c;
  }

  /// Whether C is what the round under way had to make.
  void judge_round(Runner<T>& runner, SpgemmPlan<T>& plan, const Csr<T>& c, ValueKind kind) {
    ResultRow& row = runner.rows[runner.round];
    CheckReport found;
    if (root()) found = verify(at_.problem, at_.operands, c, kind, runner.entry->claims, options_.check);
    if (!row.checked) {
      row.check = found;
      row.checked = true;
      note_result(row, at_.problem, c.nnz());
      if (row.simulated) note_plan(row, plan);
    }
    row.check.worst = std::max(row.check.worst, found.worst);
    if (!found.passed())
      found.failure += kind == ValueKind::real ? " (with real values)" : " (with integer values)";
    judge(row, ranks().agreed(found.failure), ranks().agreed(found.void_because()));
    if (row.status != Status::good) runner.rows.resize(runner.round + 1);
  }

  static void note_plan(ResultRow& row, SpgemmPlan<T>& plan) {
    row.note = plan.note();
    row.metrics = plan.metrics();
    if (row.is_host_bound()) row.add_note("host-bound");
    std::string told = fmt::format("C {} non-zeros", format_count(static_cast<double>(row.result_nnz)));
    for (const Metric& metric : row.metrics)
      if (metric.name == "bytes_moved" && metric.value > 0)
        told += fmt::format(", {} moved", format_bytes(metric.value));
    row.add_note(told + fmt::format(", {} of memory", format_bytes(row.cost.memory)));
  }

  void prepare(Runner<T>& runner) {
    Exec& exec = *runner.exec;
    if (root() && operands_.b_values.empty())
      operands_ = make_operands(problem_, ValueKind::real, options_.check.seed + 1);
    runner.rows.front().prepare = exec.time([&] { runner.plan = plan_of(runner); });
    runner.rows.front().prepare_noise = std::numeric_limits<double>::infinity();
    runner.rows.front().load = exec.time([&] { runner.plan->load(operands_); });
    through(runner, [](ResultRow&, double) {});  // warms up
  }

  /// From A on through the rounds; after each visit(row, its seconds). Ends at one that takes too long.
  template <class Visit>
  void through(Runner<T>& runner, Visit visit) {
    Exec& exec = *runner.exec;
    runner.plan->load(operands_);
    const std::size_t rounds = runner.rounds();
    for (std::size_t r = 0; r < rounds; ++r) {
      if (options_.cold) exec.flush_caches();
      exec.clear_phases();
      runner.round = r;
      const double seconds = exec.time([&] {
        if (r > 0) runner.plan->advance();
        runner.plan->run();
      });
      ResultRow& row = runner.rows[r];
      if (row.run.samples.empty() && takes_too_long(row, seconds, options_, ranks()))
        return runner.rows.resize(r + 1);
      visit(row, seconds);
    }
  }

  void sample_all(std::vector<Runner<T>*>& together) {
    const auto open = [](const Runner<T>* runner) { return !runner->finished && runner->rounds() > 0; };
    while (std::ranges::any_of(together, open)) {
      for (Runner<T>* const runner : together)
        if (open(runner)) attempt(*runner, [&] { sample(*runner); });
    }
    for (Runner<T>* const runner : together) {
      if (runner->rounds() > 0)
        attempt(*runner, [&] {
          trace(*runner);
          finish(*runner);
        });
      runner->plan.reset();
    }
    together.clear();
  }

  void sample(Runner<T>& runner) {
    through(runner, [&](ResultRow& row, double seconds) {
      for (const PhaseTime& phase : runner.exec->phases()) add_phase(row.phases, phase.name, phase.seconds);
      runner.spent += seconds;
      add_sample(row, seconds);
      if (events_.timing) events_.timing(row);
    });
    const std::size_t rounds = runner.rounds();
    const auto rows = std::span(runner.rows).first(rounds);
    if (rows.empty()) return;
    const int n = static_cast<int>(rows.front().run.samples.size());
    const bool known =
        std::ranges::all_of(rows, [&](const ResultRow& row) { return row.run.noise <= options_.max_noise; });
    double fastest = 0;
    for (const ResultRow& row : rows) fastest += row.run.min;
    const bool used_up = time_is_over(n, options_.min_samples, runner.spent, fastest,
                                      options_.time_budget * static_cast<double>(rounds));
    runner.finished =
        ranks().agreed((n >= options_.min_samples && known) || used_up || n >= options_.max_samples);
  }

  /// For how long the device is busy with each round, in three more chains.
  void trace(Runner<T>& runner) {
    constexpr int kChains = 3;
    std::vector<std::vector<double>> busy(runner.rounds());
    for (int chain = 0; chain < kChains; ++chain) {
      runner.plan->load(operands_);
      for (std::size_t r = 0; r < busy.size(); ++r) {
        const auto round = [&] {
          if (r > 0) runner.plan->advance();
          runner.plan->run();
        };
        const auto once =
            runner.exec->trace([] {}, round, [](const auto& seconds) { return !seconds.empty(); });
        if (once.empty()) return;
        busy[r].push_back(once.front());
      }
    }
    for (std::size_t r = 0; r < busy.size(); ++r) runner.rows[r].busy = summarize(std::move(busy[r]));
  }

  /// What the plan says of each round, from one more chain, and what the row then says of its cost.
  void finish(Runner<T>& runner) {
    through(runner, [&](ResultRow& row, double) {
      note_plan(row, *runner.plan);
      for (PhaseTime& phase : row.phases) phase.seconds /= static_cast<double>(row.run.samples.size());
      if (root()) relate_to_cost(row, row.run.median, *runner.exec);
    });
    runner.rows.front().fetch = runner.exec->time([&] { runner.plan->fetch(); });
  }

  const SpgemmProblem<T>& problem_;
  const Machine& machine_;
  const RunOptions& options_;
  const RunEvents& events_;
  Round at_;                    ///< rank 0: what the round under way multiplies
  SpgemmOperands<T> operands_;  ///< rank 0: of what is timed
};

}  // namespace

template <class T>
void run_chain(const SpgemmProblem<T>& problem, std::span<const Entry* const> entries, const Machine& machine,
               const RunOptions& options, const RunEvents& events, Results& results) {
  Chain<T> chain(problem, machine, options, events);
  std::vector<Runner<T>> runners;
  const std::size_t begin = results.rows.size();
  for (const Entry* const entry : entries) {
    Runner<T>& runner = runners.emplace_back(Runner<T>{.entry = entry, .exec = &machine.of(*entry)});
    if (events.checking) {
      ResultRow row = row_of(*entry);
      row.problem = facts_of(problem);
      events.checking(row);
    }
    chain.check(runner);
    results.rows.insert(results.rows.end(), runner.rows.begin(), runner.rows.end());  // if the run ends now
  }
  chain.time(runners);
  results.rows.resize(begin);
  for (std::size_t r = 0; r < static_cast<std::size_t>(problem.rounds); ++r) {
    const std::size_t first = results.rows.size();
    for (const Runner<T>& runner : runners)
      if (r < runner.rows.size()) results.rows.push_back(runner.rows[r]);
    relate_rows(std::span(results.rows).subspan(first));
  }
  for (const Runner<T>& runner : runners)
    if (events.done) events.done(runner.rows.back());
}

STAGES_FOR_VALUES(run_chain)

}  // namespace stages
