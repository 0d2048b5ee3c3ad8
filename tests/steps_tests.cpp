// The table of steps: which entries a line shows, and what it says where something is wrong, skipped or not
// timed.
#include "common/harness/steps.hpp"

#include <vector>

#include "common/cli/machines/devices.hpp"
#include "common/harness/entries.hpp"
#include "common/harness/runner.hpp"
#include "common/matrix/builtin.hpp"
#include "common/matrix/generate.hpp"
#include "tests/expect.hpp"

namespace stages {
namespace {

ResultRow row(const std::string& entry, double seconds) {
  ResultRow out;
  out.problem = {.matrix = "data:x", .op = Op::spmv, .type = "f32"};
  out.entry = entry;
  if (seconds > 0) {
    out.run = summarize({seconds});
  } else {
    out.simulated = true;
  }
  return out;
}

StepLine line_of(const std::vector<ResultRow>& rows) {
  std::vector<const ResultRow*> pointers;
  for (const ResultRow& r : rows) pointers.push_back(&r);
  return step_line("05_cuda_csr", pointers);
}

TEST(Steps, RecordsAreOfEveryStep) {
  std::string steps;
  for (const RecordedTime& time : recorded_times()) {
    EXPECT_GT(time.seconds, 0) << time.entry;
    const std::string_view number = time.entry.substr(0, 2);
    if (!steps.ends_with(number)) steps += number;
  }
  EXPECT_EQ(steps, "0102030405060708");
}

/// `stages run -m data:fem --op spgemm --stage 08` shows the ladder: no rung is beyond the executor's limit.
TEST(Steps, NoRungOfStepEightIsLeftOutOnTheBuiltinMesh) {
  const Devices devices;
  if (devices.machine().gpu == nullptr) GTEST_SKIP() << devices.machine().no_gpu;
  Registry registry;
  add_entries(registry);
  const auto a = std::make_shared<const Csr<float>>(generate<float>(builtin("fem").spec));
  const auto problem = make_spgemm_problem("data:fem", a, a);
  int rungs = 0;
  for (const Entry& entry : registry.entries()) {
    if (!entry.name.starts_with("08_") || entry.needs.mpi) continue;
    EXPECT_EQ(refusal(entry, problem, devices.machine(), RunOptions()), "") << entry.name;
    ++rungs;
  }
  EXPECT_GE(rungs, 8);
}

TEST(Steps, ThePlainestIsTheFirstAndTheBestTheFastest) {
  ResultRow reuse = row("05_cuda_csr/reuses", 1e-9);
  reuse.structure_reuse = true;
  const StepLine line =
      line_of({row("05_cuda_csr/a", 3e-3), row("05_cuda_csr/b", 1e-3), row("05_cuda_csr/c", 2e-3), reuse});
  EXPECT_EQ(line.plainest.entry, "a");
  EXPECT_EQ(line.best.entry, "b");
  EXPECT_EQ(line.best.outcome, "1.00 ms");
  EXPECT_EQ(line.best.seconds, 1e-3);
  EXPECT_EQ(line.best.recorded, "");  // no record has such entries
  EXPECT_EQ(line.record, "");
}

TEST(Steps, ThePlainestIsOneThatARecordHolds) {
  const StepLine line = line_of({row("05_cuda_csr/unheard_of", 3e-3), row("05_cuda_csr/equal_rows", 2e-3),
                                 row("05_cuda_csr/adaptive", 1e-3)});
  EXPECT_EQ(line.plainest.entry, "equal_rows");
  EXPECT_GT(line.plainest.recorded_seconds, 0);
}

TEST(Steps, WhereNothingIsTimedTheBestIsTheRecords) {
  const StepLine line = line_of({row("05_cuda_csr/equal_rows", 0), row("05_cuda_csr/full_warp_per_row", 0),
                                 row("05_cuda_csr/adaptive", 0), row("05_cuda_csr/unheard_of", 0)});
  EXPECT_EQ(line.plainest.outcome, "checked");
  EXPECT_EQ(line.plainest.seconds, 0);
  EXPECT_EQ(line.best.entry, "full_warp_per_row");
  EXPECT_GT(line.plainest.recorded_seconds, line.best.recorded_seconds);
  EXPECT_GT(line.best.recorded_seconds, 0);
  EXPECT_TRUE(has(line.record, "n = 1024"));  // it is told from the matrix here
  EXPECT_EQ(line_of({row("05_cuda_csr/x", 0), row("05_cuda_csr/y", 0)}).best.entry, "y");
}

TEST(Steps, WhatIsWrongIsShown) {
  ResultRow wrong = row("05_cuda_csr/b", 0);
  wrong.status = Status::wrong;
  const StepLine line = line_of({row("05_cuda_csr/a", 1e-3), wrong});
  EXPECT_EQ(line.best.entry, "b");
  EXPECT_EQ(line.best.outcome, "WRONG");
  EXPECT_TRUE(has(to_step_table({{line}}, false), "WRONG"));
  EXPECT_EQ(to_step_table({}, false), "");
}

TEST(Steps, WhatWasSkippedSaysWhy) {
  ResultRow skipped = row("05_cuda_csr/a", 0);
  skipped.status = Status::skipped;
  skipped.reason = "needs a GPU";
  EXPECT_EQ(line_of({skipped}).missing, "needs a GPU");
  EXPECT_EQ(line_of({skipped, row("05_cuda_csr/b", 1e-3)}).best.entry, "b");
  EXPECT_FALSE(line_of({}).missing.empty());
  EXPECT_TRUE(has(to_step_table({{line_of({skipped})}}, false), "05_cuda_csr  needs a GPU"));
}

TEST(Steps, RanksAreNamed) {
  ResultRow one = row("02_mpi/balanced", 2e-3), two = row("02_mpi/balanced", 1e-3);
  one.mpi = two.mpi = true;
  two.ranks = 2;
  const StepLine line = line_of({one, two});
  EXPECT_EQ(line.plainest.entry, "balanced on 1 rank");
  EXPECT_EQ(line.best.entry, "balanced on 2 ranks");
}

}  // namespace
}  // namespace stages
