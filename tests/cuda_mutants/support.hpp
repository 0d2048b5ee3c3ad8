#pragma once
// What the tests here share: matrices, whole registries on one problem, and the orders of threads in which a
// result must come out with the same bits.

#include <gtest/gtest.h>

#include <string_view>

#include "common/battery/matrices.hpp"
#include "common/gpu/exec.hpp"
#include "common/gpu/facts.hpp"
#include "common/harness/check_parts.hpp"
#include "common/harness/operands.hpp"
#if STAGES_SIMULATED
#include "common/simt/executor.hpp"
#endif
#include "tests/battery.hpp"
#include "tests/expect.hpp"
#include "tests/reached.hpp"

namespace stages::cuda_mutants {

using matrices::Matrix;

/// Tests that need a device, or the executor.
class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

/// All entries give the right product; of doubles the quick check is enough, plans being the same.
template <class Problem>
void expect_good(const Registry& registry, const Problem& problem) {
  GpuExec exec;
  std::string scaling;
  if constexpr (Problem::kOp == Op::spmm)
    scaling = fmt::format("/alpha={}/beta={}", problem.alpha, problem.beta);
  for (const Entry& entry : registry.entries()) {
    const CheckReport report =
        check_entry(entry, problem, exec, {.quick = std::is_same_v<typename Problem::Value, double>});
    EXPECT_EQ(report.failure, "") << entry.name << " on " << problem.name;
    note_reached(entry.name, problem.name + scaling);
  }
}

/// Problems of the sweep with rows of all kinds, each with three entries of registry_for(problem), in turns.
template <class Problem, class RegistryFor>
void expect_good_by_turns(RegistryFor registry_for) {
  GpuExec exec;
  std::size_t turn = 0;
  for (const battery::Case& c : battery::cases(Problem::kOp, battery::Pass::sweep)) {
    if (!c.name.starts_with("mixed")) continue;
    const auto problem = battery::make_problem<Problem>(c);
    if (operand_elements(problem) > 20'000) continue;  // small parts make many steps of large ones
    if constexpr (Problem::kOp == Op::spgemm) {
      if (problem.b->cols > 5000 || problem.products > 8000) continue;
    }
    const Registry registry = registry_for(problem);
    for (const std::size_t last = turn + 3; turn < last; ++turn) {
      const Entry& entry = registry.entries()[turn % registry.entries().size()];
      battery::Tally tally;
      check_on(entry, problem, exec, {}, {.quick = true}, tally);
      EXPECT_EQ(tally.objection(0), "") << entry.name;
    }
  }
}

/// Calls test(T{}) for both types of values.
template <class Test>
void for_both_types(Test test) {
  test(1.0f);
  test(1.0);
}

/// One product with the operands of this seed.
template <class Plan, class Problem>
void run_once(Plan& plan, const Problem& problem, std::uint64_t seed = 1) {
  const auto operands = make_operands(problem, ValueKind::real, seed);
  plan.load(operands);
  plan.reset();
  plan.run();
}

/// What a plan says of itself under this name; -1: nothing.
template <class Plan>
double metric(const Plan& plan, std::string_view name) {
  for (const Metric& m : plan.metrics())
    if (m.name == name) return m.value;
  return -1;
}

/// What an entry makes of one set of operands in each order of threads that the executor has; on a GPU, which
/// has its own, in nine runs.
template <class Problem>
std::vector<typename Problem::Result> in_every_schedule(const Entry& entry, const Problem& problem) {
  GpuExec exec;
  const auto plan = entry.on<Problem>().prepare(problem, exec);
  const auto operands = make_operands(problem, ValueKind::real, 1);
  plan->load(operands);
  std::vector<typename Problem::Result> results;
  const auto run = [&] {
    plan->reset();
    plan->run();
    results.push_back(plan->fetch());
  };
#if STAGES_SIMULATED
  for (const char* schedule : {"forward", "reverse", "random:1"}) {
    simt::set_schedule(schedule);
    run();
  }
  simt::set_schedule("");
#else
  for (int k = 0; k < 9; ++k) run();
#endif
  return results;
}

template <class Problem>
bool all_bits_agree(const Entry& entry, const Problem& problem) {
  const auto results = in_every_schedule(entry, problem);
  return std::ranges::all_of(results, [&](const auto& c) { return checking::same_bits(c, results.front()); });
}

}  // namespace stages::cuda_mutants
