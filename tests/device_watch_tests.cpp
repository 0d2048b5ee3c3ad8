// Which samples count: those of a GPU whose clock is high enough, and that nothing holds back.

#include "common/harness/device_watch.hpp"

#include <algorithm>

#include "tests/running.hpp"

namespace stages {
namespace {

/// A device that tells its state: each time the next of a list, the last one for ever.
class WatchedExec final : public ScriptedExec {
 public:
  explicit WatchedExec(std::vector<DeviceState> list) : states(std::move(list)) {}
  std::vector<DeviceState> states;
  int asked = 0;
  DeviceState state(bool /*now*/) override {
    return states[std::min<std::size_t>(static_cast<std::size_t>(asked++), states.size() - 1)];
  }
};

DeviceState at(double mhz, std::string held_back = {}) {
  return {.unknown = "", .clock_mhz = mhz, .held_back = std::move(held_back)};
}

TEST(Runner, SamplesOfADeviceThatIsHeldBackAreTakenAgain) {
  WatchedExec exec({at(1980), at(1500, "heat"), at(1400, "heat"), at(1960)});
  const RunOptions options = quick();
  ResultRow row = row_on(exec, options);
  expect_row(row, Status::good);
  EXPECT_EQ(row.run.samples.size(), 5U);
  EXPECT_EQ(exec.asked, 7);
  EXPECT_EQ(metric(row, "samples_again"), 2);
  EXPECT_EQ(metric(row, "samples_held_back"), -1);
  EXPECT_EQ(metric(row, "sm_clock_mhz"), 1960) << "of the samples that count";
  EXPECT_EQ(row.note, "");

  // What does not end counts, and is told.
  WatchedExec hot({at(1200, "heat")});
  row = row_on(hot, options);
  expect_row(row, Status::good);
  EXPECT_EQ(row.run.samples.size(), 5U);
  EXPECT_EQ(metric(row, "samples_again"), DeviceWatch::kMostAgain);
  EXPECT_EQ(metric(row, "samples_held_back"), 5);
  EXPECT_EQ(row.note, "5 of 5 samples while held back by heat");

  // A device that tells nothing is sampled as before.
  ScriptedExec silent;
  row = row_on(silent, options);
  EXPECT_EQ(row.run.samples.size(), 5U);
  EXPECT_TRUE(row.metrics.empty());
}

TEST(Runner, WhatASampleTookThatIsTakenAgainIsForgotten) {
  const RunOptions options = quick({.check_once = true});
  // prepare, load, a first run, two warm ones, and then the samples; what the second took does not count.
  ScriptedExec plain({1, 1, 1e-3, 1e-3, 1e-3, 1e-3, 7, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3});
  EXPECT_EQ(row_on(plain, options).run.max, 7) << "the second sample";
  WatchedExec exec({at(1980), at(1980, "heat"), at(1980)});
  exec.seconds = plain.seconds;
  EXPECT_EQ(row_on(exec, options).run.max, 1e-3);
}

TEST(Runner, AClockThatIsTooLowIsWaitedForAndThenRefused) {
  WatchedExec exec({at(345), at(1200), at(1755)});
  const RunOptions options = quick({.least_clock_mhz = 1700});
  ResultRow row = row_on(exec, options);
  expect_row(row, Status::good);
  EXPECT_EQ(metric(row, "samples_again"), 2);
  EXPECT_EQ(metric(row, "sm_clock_mhz"), 1755);

  WatchedExec slow({at(345), at(1200)});
  row = row_on(slow, options);
  expect_reason(
      row, Status::skipped,
      "its clock stayed below 1700 MHz (--require-clock): 1200 MHz at most in 51 samples, one after the "
      "other");
}

/// The other ranks have this to say.
class OtherRanks final : public Communicator {
 public:
  double theirs = 0;
  double max(double mine) override { return std::max(mine, theirs); }
};

using Verdict = DeviceWatch::Verdict;

TEST(DeviceWatch, CountsWhatTheRanksAgreedOn) {
  DeviceWatch watch(1700, 100);
  EXPECT_EQ(watch.judge(at(1980)), Verdict::counts);
  EXPECT_EQ(watch.judge(at(1980, "heat")), Verdict::again);
  EXPECT_EQ(watch.judge(at(1980)), Verdict::counts) << "judging changes nothing";
  // Taken again for another rank's sake: that is no sample of this one.
  for (int i = 0; i < 3; ++i) watch.take_again(at(1800), 0.1);
  watch.count(at(1980));
  ResultRow row;
  OtherRanks ranks;
  watch.tell(row, ranks);
  EXPECT_EQ(metric(row, "sm_clock_mhz"), 1980);
  EXPECT_EQ(metric(row, "samples_again"), 3);
  EXPECT_EQ(row.note, "");
  // Another rank's GPU was held back in five samples that count.
  ranks.theirs = 5;
  row = {};
  row.run.samples = {1, 1, 1, 1, 1, 1};
  watch.tell(row, ranks);
  EXPECT_EQ(metric(row, "samples_again"), 5);
  EXPECT_EQ(metric(row, "samples_held_back"), 5);
  EXPECT_EQ(row.note, "5 of 6 samples while held back by something on another rank's GPU");
  EXPECT_EQ(watch.why_too_slow(at(1980)), "the clock of another rank's GPU stayed too low (--require-clock)");
}

TEST(DeviceWatch, WhatHoldsBackIsNotKnown) {
  DeviceWatch watch(1700, 100);
  DeviceState state = at(1980);
  state.held_back = std::nullopt;
  EXPECT_EQ(watch.judge(state), Verdict::counts);
  watch.count(state);
  ResultRow row;
  OtherRanks ranks;
  watch.tell(row, ranks);
  EXPECT_EQ(metric(row, "sm_clock_mhz"), 1980);
  EXPECT_EQ(row.note, "what holds its clock back is not known");
  const auto refused = [](const DeviceState& s) { return error_of([&] { require_told(s, 1700); }); };
  EXPECT_EQ(refused(at(1980)), "");
  EXPECT_EQ(refused(state),
            "--require-clock 1700: what holds the GPU's clock back is not known: NVML does not tell it of "
            "this GPU");
  EXPECT_EQ(refused(DeviceState{.unknown = "no driver"}),
            "--require-clock 1700: the GPU's clock is not known: no driver");
}

TEST(DeviceWatch, HeatDoesNotUseUpWhatALowClockMayTake) {
  DeviceWatch watch(1700, 1e9);
  for (int i = 0; i < DeviceWatch::kMostAgain; ++i) {
    EXPECT_EQ(watch.judge(at(1900, "heat")), Verdict::again);
    watch.take_again(at(1900, "heat"), 0.03);
  }
  EXPECT_EQ(watch.judge(at(1900, "heat")), Verdict::counts) << "after so many it counts all the same";
  EXPECT_EQ(watch.judge(at(1600)), Verdict::again) << "the first one at a low clock";
  for (int i = 0; i < DeviceWatch::kMostAgain - 1; ++i) watch.take_again(at(1600), 0.03);
  EXPECT_EQ(watch.judge(at(1600)), Verdict::again);
  watch.count(at(1800));
  watch.take_again(at(1600), 0.03);
  EXPECT_EQ(watch.judge(at(1600)), Verdict::again) << "one that counts begins anew";
}

TEST(DeviceWatch, TakesAgainForSoLongOnly) {
  DeviceWatch watch(1700, 2);
  watch.take_again(at(1900, "heat"), 1.5);
  EXPECT_EQ(watch.judge(at(1900, "heat")), Verdict::again);
  watch.take_again(at(1900, "heat"), 0.6);
  EXPECT_EQ(watch.judge(at(1900, "heat")), Verdict::counts);
  watch.take_again(at(1600), 2.1);
  EXPECT_EQ(watch.judge(at(1600)), Verdict::too_slow);
}

}  // namespace
}  // namespace stages
