#include "common/harness/device_watch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/harness/results.hpp"
#include "common/matrix/error.hpp"

namespace stages {

DeviceWatch::Verdict DeviceWatch::judge(const DeviceState& state) const {
  if (is_too_slow(state)) {
    const bool given_up = low_in_turn_ >= kMostAgain || low_seconds_ >= most_seconds_;
    return given_up ? Verdict::too_slow : Verdict::again;
  }
  const bool given_up = again_ >= kMostAgain || again_seconds_ >= most_seconds_;
  return !state.is_held_back() || given_up ? Verdict::counts : Verdict::again;
}

void DeviceWatch::count(const DeviceState& state) {
  low_in_turn_ = 0;
  low_seconds_ = highest_low_ = 0;
  if (state.clock_mhz) clocks_.push_back(*state.clock_mhz);
  if (state.clock_mhz && !state.held_back) not_told_ = true;
  if (!state.is_held_back()) return;
  ++held_back_;
  by_ = *state.held_back;
}

void DeviceWatch::take_again(const DeviceState& state, double seconds) {
  ++again_;
  again_seconds_ += seconds;
  if (!is_too_slow(state)) return;
  ++low_in_turn_;
  low_seconds_ += seconds;
  highest_low_ = std::max(highest_low_, *state.clock_mhz);
}

std::string DeviceWatch::why_too_slow(const DeviceState& state) const {
  if (!is_too_slow(state)) return "the clock of another rank's GPU stayed too low (--require-clock)";
  return fmt::format(
      "its clock stayed below {:g} MHz (--require-clock): {:g} MHz at most in {} samples, one after the "
      "other",
      least_mhz_, std::max(highest_low_, *state.clock_mhz), low_in_turn_ + 1);
}

void DeviceWatch::tell(ResultRow& row, Communicator& ranks) const {
  if (!clocks_.empty()) row.metrics.push_back({"sm_clock_mhz", summarize(clocks_).median, "MHz"});
  const double again = ranks.max(again_), held_back = ranks.max(held_back_);
  if (again > 0) row.metrics.push_back({"samples_again", again, ""});
  if (not_told_) row.add_note("what holds its clock back is not known");
  if (held_back == 0) return;
  row.metrics.push_back({"samples_held_back", held_back, ""});
  row.add_note(fmt::format("{} of {} samples while held back by {}", held_back, row.run.samples.size(),
                           by_.empty() ? "something on another rank's GPU" : by_));
}

void require_told(const DeviceState& state, double least_mhz) {
  const std::string why = state.unknown.empty() ? "NVML does not tell it of this GPU" : state.unknown;
  if (!state.clock_mhz) fail("--require-clock {:g}: the GPU's clock is not known: {}", least_mhz, why);
  if (!state.held_back)
    fail("--require-clock {:g}: what holds the GPU's clock back is not known: {}", least_mhz, why);
}

}  // namespace stages
