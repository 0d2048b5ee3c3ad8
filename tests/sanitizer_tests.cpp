// Faults that give right results and that only a tool sees. Where the build has no sanitizer there is no
// tool, and the test says so.
#include <gtest/gtest.h>

#include <cstdlib>

#include "common/matrix/types.hpp"

namespace stages {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

/// D1 (i): the index array of a sort is never freed.
TEST(SanitizerDeathTest, LeakedIndexArrayIsSeen) {
  if (!kSanitized) GTEST_SKIP() << "built without AddressSanitizer: a leak cannot be seen";
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto sort_with_leak = [](bool leak) {
    auto* index = static_cast<volatile int*>(std::malloc(8191 * sizeof(int)));
    for (int k = 0; k < 8191; ++k) index[k] = k;
    if (!leak) std::free(const_cast<int*>(index));
    index = nullptr;
    std::exit(0);
  };
  EXPECT_EXIT(
      sort_with_leak(true), [](int status) { return WEXITSTATUS(status) != 0; }, "detected memory leaks");
  EXPECT_EXIT(sort_with_leak(false), testing::ExitedWithCode(0), "");
}

/// D1 (j): i * n + j in 32 bits, for an element of a 50,000 x 50,000 output.
TEST(SanitizerDeathTest, ThirtyTwoBitProductIsSeen) {
  if (!kSanitized) GTEST_SKIP() << "built without UndefinedBehaviorSanitizer: the product wraps in silence";
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  volatile int i = 49'999, n = 50'000, j = 7;
  EXPECT_DEATH(
      {
        volatile int place = i * n + j;
        (void)place;
      },
      "signed integer overflow");
  volatile Offset place = Offset{i} * n + j;
  EXPECT_EQ(place, 2'499'950'007);
}

}  // namespace
}  // namespace stages
