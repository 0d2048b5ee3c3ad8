// What is said of samples: median, quartiles, and how well the median is known; and of choices that were timed
// again.

#include "common/harness/clock.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bench/bench.hpp"
#include "common/matrix/random.hpp"

namespace stages {
namespace {

TEST(Summarize, NothingIsZero) {
  const Summary s = summarize({});
  EXPECT_EQ(s.median, 0);
  EXPECT_EQ(s.noise, 0);
  EXPECT_TRUE(s.samples.empty());
}

TEST(Summarize, OneSampleIsItsOwnMedianOfUnknownNoise) {
  const Summary s = summarize({3});
  EXPECT_EQ(s.median, 3);
  EXPECT_EQ(s.q1, 3);
  EXPECT_EQ(s.q3, 3);
  EXPECT_TRUE(std::isinf(s.noise));
}

TEST(Summarize, MedianAndQuartilesInterpolate) {
  const Summary odd = summarize({5, 1, 4, 2, 3});
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.q1, 2);
  EXPECT_EQ(odd.q3, 4);
  const Summary even = summarize({4, 1, 3, 2});
  EXPECT_EQ(even.median, 2.5);
  EXPECT_EQ(even.q1, 1.75);
  EXPECT_EQ(even.q3, 3.25);
  EXPECT_EQ(even.min, 1);
  EXPECT_EQ(even.max, 4);
}

TEST(Summarize, SamplesStayInTheOrderTaken) {
  EXPECT_EQ(summarize({3, 1, 2}).samples, (std::vector<double>{3, 1, 2}));
}

TEST(Summarize, AnOutlierMovesTheMaximumAlone) {
  const Summary s = summarize({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 100});
  EXPECT_EQ(s.median, 1);
  EXPECT_EQ(s.q3, 1);
  EXPECT_EQ(s.max, 100);
}

TEST(Summarize, NoiseIsZeroForEqualSamplesAndUnknownBelowSix) {
  EXPECT_TRUE(std::isinf(summarize(std::vector<double>(5, 2.0)).noise));
  EXPECT_EQ(summarize(std::vector<double>(6, 2.0)).noise, 0);
}

TEST(Summarize, SixSamplesSpanTheirWholeRange) {
  // The only interval of six samples that holds the median with 95 %: from the least to the greatest.
  EXPECT_DOUBLE_EQ(summarize({1, 2, 3, 4, 5, 6}).noise, 2.5 / 3.5);
}

TEST(Summarize, TheIntervalHoldsTheTrueMedianNineteenTimesInTwenty) {
  // Samples uniform in [1, 2): the median is 1.5. Half the width of the interval is noise * median; whether
  // it holds 1.5 is judged by the interval of that width around the sample median, which is not quite the
  // same.
  int held = 0;
  constexpr int kTrials = 1000;
  for (int trial = 0; trial < kTrials; ++trial) {
    random::Stream numbers(77, static_cast<random::Word>(trial));
    std::vector<double> samples(41);
    for (double& sample : samples) sample = 1 + static_cast<double>(numbers.next() >> 11U) * 0x1p-53;
    const Summary s = summarize(samples);
    held += std::abs(s.median - 1.5) <= s.noise * s.median;
  }
  EXPECT_GT(held, kTrials * 90 / 100);
  EXPECT_LT(held, kTrials);
}

TEST(Summarize, NoiseFallsWithTheRootOfTheCount) {
  const auto noise_of = [](std::size_t count) {
    std::vector<double> samples(count);
    for (std::size_t k = 0; k < count; ++k)
      samples[k] = 1 + static_cast<double>(k) / static_cast<double>(count);
    return summarize(samples).noise;
  };
  EXPECT_NEAR(noise_of(100) / noise_of(1600), 4, 0.5);
}

TEST(ChoiceTimes, OfWhatIsTimedAgainTheBestRoundCounts) {
  bench::ChoiceTimes times;
  times.add("rules", {5, 5, 5});
  for (const auto& [name, seconds] : {std::pair("a", 4.0), {"b", 6.0}, {"c", 3.0}, {"d", 9.0}})
    times.add(name, {seconds});
  EXPECT_EQ(times.to_time_again(), (std::vector<std::string>{"rules", "c", "a", "b"}));
  times.add_again("rules", {9, 8, 9});
  times.add_again("rules", {5, 1, 6});  // the least single sample is chance
  times.add_again("rules", {7, 7, 7});
  times.add_again("c", {4, 4, 4});
  EXPECT_EQ(times.json()["again"].dump(), R"({"rules":5.0,"c":4.0})");
  EXPECT_EQ(times.json()["seconds"]["rules"], 5.0);
}

}  // namespace
}  // namespace stages
