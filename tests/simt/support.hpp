#pragma once
// What the tests of kernels share: running under every thread order, and catching what a launch reports. On a
// GPU there is one order, the hardware's; the language tests run there too, so that both backends are held to
// one text.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/gpu/cuda.hpp"
#if STAGES_SIMULATED
#include "common/simt/executor.hpp"
#endif

namespace stages::simt_tests {

#if STAGES_SIMULATED
constexpr const char* kSchedules[] = {"forward", "reverse", "random:1", "random:2"};
#else
constexpr const char* kSchedules[] = {"hardware"};
#endif

/// Orders threads as `schedule` says from here on; "" as the environment says.
inline void use_schedule([[maybe_unused]] const std::string& schedule) {
#if STAGES_SIMULATED
  simt::set_schedule(schedule);
#endif
}

/// Does `work` in each order of threads.
template <class Work>
void in_every_order(Work work) {
  for (const char* const schedule : kSchedules) {
    SCOPED_TRACE(schedule);
    use_schedule(schedule);
    work();
  }
}

/// Leaves the schedule as it was when a test ends.
class KernelTest : public ::testing::Test {
 protected:
  ~KernelTest() override { use_schedule(""); }
};

template <class T>
DeviceArray<T> zeros(std::size_t size) {
  DeviceArray<T> out(size);
  out.zero(nullptr);
  return out;
}

/// The message of the Error that `work` throws; a failure, and empty, if it throws none.
template <class Work>
std::string error_of(Work work) {
  try {
    work();
  } catch (const Error& e) {
    return e.what();
  }
  ADD_FAILURE() << "no error was reported";
  return "";
}

inline void expect_mentions(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "missing: " << part << "\nin: " << text;
}

/// Launches, and demands an error whose message has all `parts`.
template <class... P, class... Args>
void expect_fault(const std::vector<std::string>& parts, void (*kernel)(P...), const LaunchConfig& config,
                  Args... args) {
  expect_mentions(error_of([&] { launch(kernel, config, args...); }), parts);
}

}  // namespace stages::simt_tests
