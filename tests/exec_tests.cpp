// The host's Exec: time, phases, caches, bandwidth, and the world of one rank.

#include "common/harness/exec.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "common/harness/machine.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/memory.hpp"
#include "common/matrix/processors.hpp"

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

TEST(Exec, NestedPhasesBothCount) {
  Exec exec;
  {
    Phase outer(exec, "outer");
    Phase inner(exec, "inner");
    std::this_thread::sleep_for(5ms);
  }
  ASSERT_EQ(exec.phases().size(), 2U);
  EXPECT_EQ(exec.phases()[0].name, "inner");
  EXPECT_GE(exec.phases()[1].seconds, exec.phases()[0].seconds);
}

TEST(Exec, APhaseEndsWhereAnExceptionLeavesIt) {
  Exec exec;
  try {
    Phase phase(exec, "fails");
    throw std::runtime_error("x");
  } catch (const std::runtime_error&) {
  }
  Phase after(exec, "after");
  ASSERT_EQ(exec.phases().size(), 1U);
  EXPECT_EQ(exec.phases()[0].name, "fails");
}

TEST(Exec, IsAloneOnAHostThatIsReal) {
  Exec exec;
  EXPECT_EQ(exec.communicator().rank(), 0);
  EXPECT_EQ(exec.communicator().size(), 1);
  EXPECT_EQ(exec.communicator().max(2.5), 2.5);
  EXPECT_FALSE(exec.simulated());
  EXPECT_NE(exec.device().find("one thread"), std::string::npos);
  int runs = 0;
  const auto recorded = exec.record([&] { ++runs; });
  EXPECT_EQ(runs, 0);
  recorded();
  EXPECT_EQ(runs, 1);
}

TEST(Exec, LimitsAreWithinTheMachine) {
  Exec exec;
  EXPECT_GT(exec.memory_limit(), 1e6);
  EXPECT_LT(exec.memory_limit(), total_memory_bytes());
  EXPECT_GE(available_processors(), 1);
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

}  // namespace
}  // namespace stages
