// The host's Exec: time, phases, caches, bandwidth, and the world of one rank; how much memory may be taken;
// and what is said of samples.

#include "common/harness/exec.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/harness/clock.hpp"
#include "common/harness/machine.hpp"
#include "common/matrix/memory.hpp"
#include "common/matrix/processors.hpp"
#include "common/matrix/random.hpp"
#include "tests/expect.hpp"

namespace stages {
namespace {

using namespace std::chrono_literals;

TEST(Exec, TimesWhatRuns) {
  Exec exec;
  const double seconds = exec.time([] { std::this_thread::sleep_for(20ms); });
  EXPECT_GE(seconds, 0.02);
  EXPECT_LT(seconds, 2);
  EXPECT_GE(exec.time([] {}), 0);
}

TEST(Exec, SumsPhasesByNameInOrderOfFirstUse) {
  Exec exec;
  for (int i = 0; i < 2; ++i) {
    {
      Phase symbolic(exec, "symbolic");
      std::this_thread::sleep_for(5ms);
    }
    Phase numeric(exec, "numeric");
  }
  ASSERT_EQ(exec.phases().size(), 2U);
  EXPECT_EQ(exec.phases()[0].name, "symbolic");
  EXPECT_EQ(exec.phases()[1].name, "numeric");
  EXPECT_GE(exec.phases()[0].seconds, 0.01);
  EXPECT_LT(exec.phases()[1].seconds, 0.01);
  exec.clear_phases();
  EXPECT_TRUE(exec.phases().empty());
}

TEST(Exec, NestedPhasesBothCountAndEndWhereAnExceptionLeavesThem) {
  Exec exec;
  EXPECT_NE(error_of([&] {
              Phase outer(exec, "outer");
              Phase inner(exec, "inner");
              std::this_thread::sleep_for(5ms);
              fail("x");
            }),
            "");
  Phase after(exec, "after");
  ASSERT_EQ(exec.phases().size(), 2U);
  EXPECT_EQ(exec.phases()[0].name, "inner");
  EXPECT_GE(exec.phases()[1].seconds, exec.phases()[0].seconds);
}

TEST(Exec, IsAloneOnAHostThatIsRealWithinItsLimits) {
  Exec exec;
  EXPECT_EQ(exec.communicator().max(2.5), 2.5);
  EXPECT_FALSE(exec.simulated());
  EXPECT_TRUE(has(exec.device(), "one thread"));
  EXPECT_GT(exec.memory_limit(), 1e6);
  EXPECT_LT(exec.memory_limit(), total_memory_bytes());
  EXPECT_GE(available_processors(), 1);
  int runs = 0;
  const auto recorded = exec.record([&] { ++runs; });
  EXPECT_EQ(runs, 0);
  recorded();
  EXPECT_EQ(runs, 1);
}

TEST(Exec, AreasBeyondTheCachesLeaveMemoryFree) {
  const auto most = static_cast<double>(available_memory()) / 16;
  EXPECT_LE(beyond_caches(1e9, 0), 1.1 * most);
  EXPECT_LE(beyond_caches(1e9, 0, 8), 1.1 * most / 8);
  EXPECT_LE(beyond_caches(1e9, 0), 512.0 * (1 << 20));
  EXPECT_EQ(beyond_caches(0, 3 << 20), 3 << 20);
}

TEST(Exec, TestsMayHaveLessCopied) {
  setenv("STAGES_COPY_BYTES", "4096", 1);
  EXPECT_EQ(beyond_caches(4, 128.0 * (1 << 20)), 4096);
  EXPECT_GT(Exec().copy_bandwidth(), 1e7);
  for (const char* const wrong : {"0", "-1", "1e6", "4096x", ""}) {
    setenv("STAGES_COPY_BYTES", wrong, 1);
    EXPECT_THROW(most_copied_bytes(), Error) << wrong;
  }
  unsetenv("STAGES_COPY_BYTES");
  EXPECT_EQ(most_copied_bytes(), 0);
}

TEST(Exec, BandwidthIsMeasuredOnce) {
  Exec exec;
  const double first = exec.copy_bandwidth();
  EXPECT_GT(first, 1e7);
  EXPECT_LT(first, 1e13);
  EXPECT_EQ(exec.copy_bandwidth(), first);
  exec.flush_caches();
}

constexpr Offset kGib = Offset{1} << 30;

/// /proc and /sys are played by files.
class Memory : public testing::Test {
 protected:
  Memory() { write("/proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\n"); }
  ~Memory() override { std::filesystem::remove_all(root_); }

  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + file).parent_path());
    std::ofstream(root_ + file) << text;
  }
  void write(const std::string& file, Offset number) const { write(file, std::to_string(number) + "\n"); }
  Offset available() const { return available_memory(root_); }

 private:
  std::string root_ =
      (std::filesystem::temp_directory_path() / ("stages_memory_" + std::to_string(getpid()))).string();
};

TEST_F(Memory, IsWhatTheKernelCallsAvailableAndNoMoreThanWhatItsCgroupsLeave) {
  EXPECT_EQ(available(), 32 * kGib);
  write("/proc/self/cgroup", "0::/jobs/mine\n");
  write("/sys/fs/cgroup/jobs/mine/memory.max", 8 * kGib);
  write("/sys/fs/cgroup/jobs/mine/memory.current", 3 * kGib);
  EXPECT_EQ(available(), 5 * kGib);
  write("/sys/fs/cgroup/jobs/mine/memory.stat", "anon 1\ninactive_file " + std::to_string(2 * kGib) + "\n");
  EXPECT_EQ(available(), 7 * kGib) << "cached pages of files are given back";
  write("/sys/fs/cgroup/jobs/mine/memory.max", "max\n");
  write("/sys/fs/cgroup/jobs/memory.max", 4 * kGib);
  write("/sys/fs/cgroup/jobs/memory.current", 1 * kGib);
  EXPECT_EQ(available(), 3 * kGib) << "those around it count, too";
}

TEST_F(Memory, KnowsAContainerThatSeesItsOwnCgroupAsTheTopmost) {
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/memory.max", 2 * kGib);
  EXPECT_EQ(available(), 2 * kGib);
  write("/sys/fs/cgroup/memory.current", 3 * kGib);
  EXPECT_EQ(available(), 0) << "more is used than may be";
}

TEST_F(Memory, KnowsVersionOne) {
  write("/proc/self/cgroup", "7:cpu,cpuacct:/other\n5:memory:/docker/0123\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", 6 * kGib);  // the container's own, seen as the topmost
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", 2 * kGib);
  EXPECT_EQ(available(), 4 * kGib);
}

TEST_F(Memory, WhatIsNotThereIsRefusedWithItsNumber) {
  EXPECT_NO_THROW(require_memory(1000, "x"));
  EXPECT_THROW(require_memory(1e18, "the transpose"), OutOfMemory);
  EXPECT_TRUE(has(error_of([] { require_memory(1e18, "the transpose"); }),
                  "the transpose takes 1e+09 GB of memory, and "));
}

TEST_F(Memory, KnowsTheLimitsOfTheProcess) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer needs the address space";
#endif
  write("/proc/self/statm", "262144 0 0 0 0 131072 0\n");
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit before{};
    ASSERT_EQ(getrlimit(resource, &before), 0);
    rlimit limit = before;
    limit.rlim_cur = static_cast<rlim_t>(16 * kGib);
    ASSERT_EQ(setrlimit(resource, &limit), 0);
    const Offset page = sysconf(_SC_PAGESIZE);
    const Offset used = (resource == RLIMIT_AS ? 262144 : 131072) * page;
    EXPECT_EQ(available(), 16 * kGib - used);
    ASSERT_EQ(setrlimit(resource, &before), 0);
  }
}

TEST(Summarize, GivesMedianQuartilesAndHowWellTheMedianIsKnown) {
  const struct {
    std::vector<double> samples;
    double min, q1, median, q3, max, noise;
  } cases[] = {
      {{}, 0, 0, 0, 0, 0, 0},
      {{3}, 3, 3, 3, 3, 3, HUGE_VAL},
      {{5, 1, 4, 2, 3}, 1, 2, 3, 4, 5, HUGE_VAL},
      {{4, 1, 3, 2}, 1, 1.75, 2.5, 3.25, 4, HUGE_VAL},
      {{2, 2, 2, 2, 2}, 2, 2, 2, 2, 2, HUGE_VAL},
      {{2, 2, 2, 2, 2, 2}, 2, 2, 2, 2, 2, 0},
      // The only interval of six samples that holds the median with 95 %: from the least to the greatest.
      {{1, 2, 3, 4, 5, 6}, 1, 2.25, 3.5, 4.75, 6, 2.5 / 3.5},
  };
  for (const auto& c : cases) {
    const Summary s = summarize(c.samples);
    SCOPED_TRACE(testing::PrintToString(c.samples));
    EXPECT_EQ(s.samples, c.samples) << "the order in which they were taken";
    EXPECT_EQ(s.min, c.min);
    EXPECT_EQ(s.q1, c.q1);
    EXPECT_EQ(s.median, c.median);
    EXPECT_EQ(s.q3, c.q3);
    EXPECT_EQ(s.max, c.max);
    EXPECT_DOUBLE_EQ(s.noise, c.noise);
  }
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

}  // namespace
}  // namespace stages
