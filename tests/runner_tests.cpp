// The runner: who may run, who is timed, in which order, and what a row says in the end. What rows say of each
// other is in relations_tests.cpp.

#include "common/harness/runner.hpp"

#include <algorithm>
#include <map>

#include "common/battery/matrices.hpp"
#include "tests/expect.hpp"
#include "tests/mutants/spmm.hpp"
#include "tests/mutants/spmv.hpp"
#include "tests/running.hpp"

namespace stages {
namespace {

using mutants::FaultySpmm;
using mutants::FaultySpmv;
using mutants::SpmmFault;
using mutants::SpmvFault;

Registry spmv_entries(std::initializer_list<std::pair<const char*, SpmvFault>> list) {
  Registry registry;
  for (const auto& [name, fault] : list) registry.add<FaultySpmv>({.name = name, .idea = "i"}, fault);
  return registry;
}

/// The problem of most tests: A x, once.
SpmvProblem<double> once() { return make_spmv_problem("m", kMatrix); }

TEST(Runner, FillsARowForAGoodEntry) {
  Exec exec;
  const auto results = run(spmv_entries({{"a/right", SpmvFault::none}}), once(), exec, quick());
  ASSERT_EQ(results.rows.size(), 1U);
  const ResultRow& row = results.rows[0];
  EXPECT_EQ(row.status, Status::good);
  EXPECT_TRUE(row.checked);
  EXPECT_TRUE(row.check.passed());
  EXPECT_EQ(row.run.samples.size(), 5U);
  EXPECT_GT(row.run.median, 0);
  EXPECT_GT(row.prepare, 0);
  EXPECT_EQ(row.problem.matrix, "m");
  EXPECT_EQ(row.problem.type, "f64");
  EXPECT_EQ(row.problem.rows, 60);
  EXPECT_EQ(row.problem.nnz, kMatrix->nnz());
  EXPECT_GT(row.bandwidth_share, 0);
}

/// Demands that a right entry is skipped under this limit, for a reason with these words.
template <class Problem>
void expect_skipped(const Problem& problem, double RunOptions::*limit, double value, const std::string& words,
                    RunOptions options = quick()) {
  Exec exec;
  Registry registry;
  if constexpr (Problem::kOp == Op::spmv) registry = spmv_entries({{"a/right", SpmvFault::none}});
  if constexpr (Problem::kOp == Op::spmm) registry = entry_of<FaultySpmm>({"a/right", "i"}, SpmmFault::none);
  options.*limit = value;
  const ResultRow row = run(registry, problem, exec, options).rows.at(0);
  expect_row(row, Status::skipped, words);
  EXPECT_EQ(row.checked, limit == &RunOptions::max_seconds);
}

TEST(Runner, LimitsSkipWithTheNumberThatRulesOut) {
  using Options = RunOptions;
  expect_skipped(once(), &Options::max_work, 10,
                 fmt::format("{} steps, the limit is 10 (--max-work)", kMatrix->nnz()));
  expect_skipped(once(), &Options::max_memory, 100, "960 B of memory, the limit is 100 B (--max-memory)");
  expect_skipped(once(), &Options::max_memory, 961,
                 "of memory with what its check takes, the limit is 961 B (--max-memory)");
  expect_skipped(once(), &Options::max_seconds, 1e-12, "(--max-seconds)");
  Exec exec;
  EXPECT_EQ(row_on(exec, quick({.max_seconds = 100})).status, Status::good);

  expect_skipped(make_spmv_problem("m", share<double>(matrices::empty(500, 1))), &Options::max_work, 1000,
                 "needs 1.50 k numbers as results of its check, the limit is 1.00 k (--max-work)");
  const auto wide = share<double>(matrices::empty(1, 2147483647));
  expect_skipped(make_spmm_problem<double>({.name = "m", .a = wide, .n_cols = 1000}), &Options::max_memory,
                 1e30, "needs 34.4 TB of memory with what its check takes, and ");
  expect_skipped(make_spmv_problem("m", wide), &Options::max_work, 1e9,
                 "needs 2.15 G numbers as operands of its check, the limit is 1.00 G (--max-work)",
                 quick({.max_memory = 1e30, .check_once = true}));
}

TEST(Runner, NeedsSkipToo) {
  Exec exec;
  const Registry registry =
      entry_of<FaultySpmv>({.name = "a/gpu", .idea = "i", .needs = {.gpu = true}}, SpmvFault::none);
  const Machine no_driver(exec, "the driver is missing");
  expect_reason(run(registry, once(), no_driver, quick()).rows.at(0), Status::skipped,
                "needs a GPU, and the driver is missing");
  Exec gpu;
  EXPECT_EQ(run(registry, once(), Machine(exec, gpu), quick()).rows.at(0).status, Status::good);
}

TEST(Runner, WhatFailsOrIsWrongIsToldAndNeverTimedAndTheRunGoesOn) {
  Exec exec;
  std::string told;
  RunEvents events;
  events.checking = [&](const ResultRow& row) { told += "checking " + row.entry + "\n"; };
  events.timing = [&](const ResultRow& row) { told += "timing " + row.entry + "\n"; };
  events.done = [&](const ResultRow& row) {
    told += "done " + row.entry + " " + to_string(row.status) + "\n";
  };
  RunOptions options = quick();
  options.max_samples = 1;
  const auto results = run(spmv_entries({{"throws", SpmvFault::throws},
                                         {"wrong", SpmvFault::failed_library_call},
                                         {"right", SpmvFault::none}}),
                           once(), exec, options, events);
  ASSERT_EQ(results.rows.size(), 3U);
  expect_reason(results.rows[0], Status::failed, "the device is gone");
  expect_row(results.rows[1], Status::wrong, "is NaN");
  EXPECT_TRUE(results.rows[1].checked);
  expect_row(results.rows[2], Status::good);
  EXPECT_EQ(results.count(Status::failed), 1);
  EXPECT_EQ(told,
            "checking throws\nchecking wrong\nchecking right\ntiming right\n"
            "done throws failed\ndone wrong wrong\ndone right good\n");
}

/// Right for the first `kGood` runs of a plan, which outlast the check.
template <class T>
class Decays final : public FaultySpmv<T> {
 public:
  Decays(const SpmvProblem<T>& problem, Exec& exec, bool throws)
      : FaultySpmv<T>(problem, exec, SpmvFault::none), throws_(throws) {}
  void run() override {
    FaultySpmv<T>::run();
    if (++times_ > kGood && throws_) throw std::runtime_error("worn out");
  }
  Dense<T> fetch() override {
    Dense<T> y = FaultySpmv<T>::fetch();
    if (times_ > kGood) y(0, 0) += 1;
    return y;
  }

 private:
  static constexpr int kGood = 5;
  bool throws_;
  int times_ = 0;
};

TEST(Runner, CheckedOnceIsCheckedAfterTheTimedRuns) {
  Exec exec;
  const auto rows = run(spmv_entries({{"a/right", SpmvFault::none}, {"a/no_tail", SpmvFault::missing_tail}}),
                        once(), exec, quick({.check_once = true}))
                        .rows;
  expect_row(rows[0], Status::good);
  EXPECT_TRUE(rows[0].checked);
  EXPECT_EQ(rows[0].check.rows_checked, 60);
  expect_row(rows[1], Status::wrong, "(after the timed runs)");
}

TEST(Runner, AnEntryWhoseResultsCannotBeJudgedIsSkipped) {
  Exec exec;
  const auto registry = spmv_entries({{"a/right", SpmvFault::none}, {"a/wrong", SpmvFault::wrong_last_row}});
  Csr<double> a = matrices::dense(20, 40);
  std::fill(a.values.begin(), a.values.end(), 1e308);
  for (const bool once : {false, true}) {
    const auto problem = make_spmv_problem("m", share<double>(a), Mode::stream, 3);
    const auto rows = run(registry, problem, exec, quick({.check_once = once})).rows;
    expect_row(rows[0], Status::skipped, "no result can be judged");
    EXPECT_FALSE(rows[0].checked);
    EXPECT_EQ(rows[1].status, once ? Status::skipped : Status::wrong) << "only small integers show it";
  }
  std::fill_n(a.values.begin(), 40, 1.0);
  const auto row = run(registry, make_spmv_problem("m", share<double>(a)), exec, quick()).rows[0];
  expect_row(row, Status::good);
  EXPECT_EQ(row.check.sums, 20);
  EXPECT_EQ(row.check.not_judged, 19);
}

TEST(Runner, AResultThatGoesBadWhileTimedTakesItsTimeAway) {
  Exec exec;
  Registry registry = entry_of<Decays>({.name = "a/decays", .idea = "i"}, false);
  registry.add<Decays>({.name = "a/dies", .idea = "i"}, true);
  const auto rows = run(registry, once(), exec, quick()).rows;
  expect_row(rows[0], Status::wrong, "(after the timed runs)");
  expect_reason(rows[1], Status::failed, "worn out");
}

/// The first letters of the entries in the order in which they were sampled.
std::string sampled(const RunOptions& options) {
  Exec exec;
  std::string order;
  RunEvents events;
  events.timing = [&](const ResultRow& row) { order += row.entry[0]; };
  run(spmv_entries({{"a/x", SpmvFault::none}, {"b/x", SpmvFault::none}, {"c/x", SpmvFault::none}}), once(),
      exec, options, events);
  return order;
}

TEST(Runner, SamplesAreTakenInTurnByThePlansThatFitTogether) {
  EXPECT_EQ(sampled(quick()), "abcabcabcabcabc");
  // Two plans of 960 bytes, not three, and one with its check.
  EXPECT_EQ(sampled(quick({.max_memory = 2800})), "abababababccccc");
}

TEST(Runner, StopsWhenTheMedianIsKnownOrAtTheTimeBudgetOrTheCount) {
  ScriptedExec steady;  // every run takes a millisecond: known after the least number of samples
  const Summary run = row_on(steady, {.min_samples = 7, .spread = 0}).run;
  EXPECT_EQ(run.samples.size(), 7U);
  EXPECT_EQ(run.noise, 0);
  EXPECT_NEAR(run.median, 1e-3, 1e-12);
  ScriptedExec exec({0.1, 0.2, 0.4, 0.1, 0.3});
  const auto count = row_on(exec, {.time_budget = 4}).run.samples.size();
  EXPECT_TRUE(count >= 15 && count <= 24) << count;
  EXPECT_EQ(row_on(exec, {.time_budget = 4, .max_samples = 9}).run.samples.size(), 9U);
  // Of two samples the median would be half of what disturbed one; where a run takes all the time, one will do.
  ScriptedExec disturbed({1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 0.2});
  EXPECT_NEAR(row_on(disturbed, {.time_budget = 0.02}).run.median, 1e-3, 1e-12);
  ScriptedExec slow({0.2});
  EXPECT_EQ(row_on(slow, {.time_budget = 0.02}).run.samples.size(), 1U);
}

TEST(Runner, ADeviceWithLittleToDoIsTold) {
  for (const auto& [busy, host_bound] : {std::pair{0.79e-3, true}, {0.81e-3, false}}) {
    BusyExec exec(busy);
    const ResultRow row = row_on(exec, {.min_samples = 9, .spread = 0});
    EXPECT_EQ(row.busy.samples.size(), 9U);
    EXPECT_EQ(row.busy.median, busy);
    EXPECT_EQ(row.is_host_bound(), host_bound);
    EXPECT_EQ(row.note, host_bound ? "host-bound" : "");
  }
  BusyExec long_runs(0.5);
  long_runs.seconds = {0.6};
  EXPECT_EQ(row_on(long_runs, {.min_samples = 9, .spread = 0}).busy.samples.size(), 3U);
  ScriptedExec untold;
  EXPECT_TRUE(row_on(untold, {.spread = 0}).busy.samples.empty());
}

TEST(Runner, ColdRunsFlushTheCachesBeforeEachSample) {
  ScriptedExec exec;
  const auto registry = spmv_entries({{"a/x", SpmvFault::none}, {"b/x", SpmvFault::none}});
  run(registry, once(), exec, quick({.cold = true}));
  EXPECT_EQ(exec.flushes, 2 * 5);
  ScriptedExec warm;
  run(registry, once(), warm, quick());
  EXPECT_EQ(warm.flushes, 0);
}

TEST(Runner, TimeIsPerProduct) {
  ScriptedExec exec;
  const auto row = row_on(exec, quick(), Mode::chain, 50);
  EXPECT_NEAR(row.run.median, 1e-3 / 50, 1e-12);
  EXPECT_EQ(row.problem.options, "chain of 50");
  EXPECT_NEAR(row.gflops, 2 * static_cast<double>(kMatrix->nnz()) / row.run.median / 1e9, 1e-9);
}

TEST(Runner, ProductsThatAddToCAreResetBeforeEachRun) {
  Exec exec;
  const auto registry = entry_of<FaultySpmm>({.name = "a/spmm", .idea = "i"}, SpmmFault::none);
  SpmmProblem<double> wanted{.name = "m", .a = kMatrix, .n_cols = 4, .alpha = 2, .beta = 3};
  expect_row(run(registry, make_spmm_problem(wanted), exec, quick()).rows[0], Status::good);
}

class Simulator : public Exec {
 public:
  bool simulated() const override { return true; }
};

/// Counts its products, each of which is a phase.
template <class T>
class Counting final : public FaultySpmv<T> {
 public:
  Counting(const SpmvProblem<T>& problem, Exec& exec)
      : FaultySpmv<T>(problem, exec, SpmvFault::none), exec_(exec) {}
  void run() override {
    const Phase phase(exec_, "phase");
    ++products_;
    FaultySpmv<T>::run();
  }
  std::string note() const override { return "row by row"; }
  std::vector<Metric> metrics() const override { return {{"products", static_cast<double>(products_), ""}}; }

 private:
  Exec& exec_;
  int products_ = 0;
};

/// A device that, as a GPU does, tells of phases when a clock stops: a second for each.
class LateExec final : public ScriptedExec {
 public:
  double time(const std::function<void()>& work) override {
    const double taken = ScriptedExec::time(work);
    for (; ended_ > 0; --ended_) add_phase_time("phase", 1);
    return taken;
  }
  void clear_phases() override {
    ScriptedExec::clear_phases();
    ended_ = 0;
  }

 protected:
  void begin_phase(std::string_view /*name*/) override {}
  void end_phase() override { ++ended_; }

 private:
  int ended_ = 0;
};

TEST(Runner, PhasesAreThoseOfTheTimedRuns) {
  LateExec exec;
  Registry registry = entry_of<Counting>({.name = "a/x", .idea = "i"});
  registry.add<Counting>({.name = "b/x", .idea = "i"});
  for (const Index products : {1, 4})
    for (const ResultRow& row :
         run(registry, make_spmv_problem("m", kMatrix, Mode::stream, products), exec, quick()).rows) {
      ASSERT_EQ(row.phases.size(), 1U) << row.reason;
      EXPECT_EQ(row.phases[0].seconds, 1.0 / products) << row.entry;
    }
}

TEST(Runner, SimulatedRunsAreCheckedAndTellWhatTheyCountedAndAreNeverTimed) {
  Exec host;
  Simulator gpu;
  Registry registry = entry_of<Counting>({.name = "a/counting", .idea = "i", .needs = {.gpu = true}});
  registry.add<FaultySpmv>({.name = "a/wrong", .idea = "i", .needs = {.gpu = true}},
                           SpmvFault::failed_library_call);
  const auto rows = run(registry, once(), Machine(host, gpu), quick()).rows;
  EXPECT_EQ(rows[0].status, Status::good) << rows[0].reason;
  EXPECT_TRUE(rows[0].checked);
  EXPECT_TRUE(rows[0].simulated);
  EXPECT_FALSE(rows[0].timed());
  EXPECT_EQ(rows[0].note, "row by row");
  ASSERT_EQ(rows[0].metrics.size(), 1U);
  EXPECT_EQ(rows[0].metrics[0].value, 1);
  expect_row(rows[1], Status::wrong);
}

TEST(Context, NamesCommandMachineAndBuild) {
  ScriptedExec exec;
  const auto context = run_context({"/opt/stages", "run", "-m", "x", "--json", "/tmp/r.json"}, exec);
  const std::map<std::string, std::string> facts(context.begin(), context.end());
  for (const auto& [key, value] : facts) EXPECT_FALSE(value.empty()) << key;
  EXPECT_EQ(facts.at("command"), "stages run -m x --json r.json");
  for (const char* key : {"date", "version", "source_digest", "compiler", "flags", "backend", "cpu", "gpu",
                          "ranks", "copy_bandwidth_bytes_per_second", "load_begin"})
    EXPECT_TRUE(facts.contains(key)) << key;
}

}  // namespace
}  // namespace stages
