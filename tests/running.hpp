#pragma once
// What the tests of runs share: options, registries of one entry, hosts whose clock is made up, and what is
// expected of a row.

#include <algorithm>
#include <functional>

#include "common/battery/matrices.hpp"
#include "common/harness/runner.hpp"
#include "tests/expect.hpp"
#include "tests/mutants/spmv.hpp"

namespace stages {

/// Options under which a run takes no time worth speaking of, and what else is wanted.
inline RunOptions quick(RunOptions options = {}) {
  options.time_budget = 10;
  options.max_noise = -1;  // never reached
  options.min_samples = options.max_samples = 5;
  return options;
}

template <class Problem>
Results run(const Registry& registry, const Problem& problem, const Machine& machine,
            const RunOptions& options, const RunEvents& events = {}) {
  std::vector<const Entry*> entries;
  for (const Entry& entry : registry.entries()) entries.push_back(&entry);
  Results results;
  run_problem(problem, entries, machine, options, events, results);
  return results;
}

/// One entry of this class; `extra` are its constructor's.
template <template <class> class PlanOf, class... Extra>
Registry entry_of(const EntryInfo& info, Extra... extra) {
  Registry registry;
  registry.add<PlanOf>(info, extra...);
  return registry;
}

/// A host whose clock is a list: each timed run takes the next number of seconds.
class ScriptedExec : public Exec {
 public:
  explicit ScriptedExec(std::vector<double> list = {}) : seconds(std::move(list)) {}
  std::vector<double> seconds;
  int flushes = 0;
  double time(const std::function<void()>& work) override {
    work();
    return seconds.empty() ? 1e-3 : seconds[next_++ % seconds.size()];
  }
  void flush_caches() override { ++flushes; }

 protected:
  double measure_copy_bandwidth() override { return 1e9; }

 private:
  std::size_t next_ = 0;
};

/// A device that tells for how long it was busy.
class BusyExec final : public ScriptedExec {
 public:
  explicit BusyExec(double busy) : busy_(busy) {}
  std::vector<double> trace(const std::function<void()>& before, const std::function<void()>& work,
                            const std::function<bool(const std::vector<double>&)>& enough) override {
    std::vector<double> all;
    for (; !enough(all); all.push_back(busy_)) {
      before();
      work();
    }
    return all;
  }

 private:
  double busy_;
};

inline const std::shared_ptr<const Csr<double>> kMatrix = share<double>(matrices::uneven(60, 60, 5));

/// The row of one entry without faults, timed there.
inline ResultRow row_on(Exec& exec, const RunOptions& options, Mode mode = Mode::single, Index products = 1) {
  return run(entry_of<mutants::FaultySpmv>({.name = "a/x", .idea = "i"}, mutants::SpmvFault::none),
             make_spmv_problem("m", kMatrix, mode, products), exec, options)
      .rows[0];
}

/// The row ends so: with these words in its reason, and with a time only where it is good.
inline void expect_row(const ResultRow& row, Status status, std::string_view words = "") {
  EXPECT_EQ(row.status, status) << row.reason;
  EXPECT_TRUE(has(row.reason, words));
  EXPECT_EQ(row.timed(), status == Status::good);
}

/// And this is the whole reason.
inline void expect_reason(const ResultRow& row, Status status, std::string_view reason) {
  expect_row(row, status);
  EXPECT_EQ(row.reason, reason);
}

/// -1: the row has none of that name.
inline double metric(const ResultRow& row, const std::string& name) {
  const auto found = std::ranges::find(row.metrics, name, &Metric::name);
  return found == row.metrics.end() ? -1 : found->value;
}

}  // namespace stages
