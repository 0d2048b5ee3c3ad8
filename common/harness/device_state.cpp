#include "common/harness/device_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "common/harness/results.hpp"

namespace stages {

std::string DeviceWatch::against(const DeviceState& state, double least_mhz) {
  const bool too_slow = state.clock_mhz.value_or(least_mhz) < least_mhz;
  if (too_slow) highest_below_ = std::max(highest_below_, *state.clock_mhz);
  if ((too_slow || !state.held_back.empty()) && again_ < kMostAgain) {
    ++again_;
    return state.held_back.empty() ? "a low clock" : state.held_back;
  }
  if (state.clock_mhz) clocks_.push_back(*state.clock_mhz);
  if (state.watts) watts_.push_back(*state.watts);
  if (!state.held_back.empty()) {
    ++held_back_;
    by_ = state.held_back;
  }
  return {};
}

std::string DeviceWatch::too_slow(double least_mhz) const {
  if (std::ranges::none_of(clocks_, [&](double clock) { return clock < least_mhz; })) return {};
  return fmt::format(
      "its clock stayed below {:g} MHz (--require-clock): {:g} MHz at most in {} samples, each taken "
      "again",
      least_mhz, highest_below_, kMostAgain);
}

void DeviceWatch::tell(ResultRow& row) const {
  if (!clocks_.empty())
    row.metrics.push_back({.name = "sm_clock_mhz", .value = summarize(clocks_).median, .unit = "MHz"});
  if (!watts_.empty()) {
    const double mean =
        std::accumulate(watts_.begin(), watts_.end(), 0.0) / static_cast<double>(watts_.size());
    row.metrics.push_back({.name = "gpu_watts", .value = mean, .unit = "W"});
  }
  if (again_ > 0) row.metrics.push_back({.name = "samples_again", .value = static_cast<double>(again_)});
  if (held_back_ > 0) {
    row.metrics.push_back({.name = "samples_held_back", .value = static_cast<double>(held_back_)});
    row.note += fmt::format("{}{} of {} samples while held back by {}", row.note.empty() ? "" : "; ",
                            held_back_, row.run.samples.size(), by_);
  }
}

}  // namespace stages
