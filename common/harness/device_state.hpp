#pragma once
// What a device was doing while it was timed: its clock, what held it back, what it drew. Samples that were
// taken while something held it back say nothing of an entry and are taken again.

#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace stages {

struct ResultRow;

/// As the device's driver tells it. What it does not tell is empty.
struct DeviceState {
  std::string unknown = "this device does not tell of it";  ///< why all below is empty; empty where it is not
  std::optional<double> clock_mhz;
  std::string held_back = {};    ///< what keeps the clock below what it could be, as "heat"; empty: nothing
  std::optional<double> watts;   ///< drawn in the last moments, a second on newer GPUs
  std::optional<double> joules;  ///< drawn since some time in the past
};

/// Looks at the device after each sample of one entry.
class DeviceWatch {
 public:
  /// Samples of one entry that are taken again at most; after that many they count as they are, and the row
  /// says so.
  static constexpr int kMostAgain = 50;

  /// What stands against the sample just taken: something held the device back, or its clock was below
  /// `least_mhz`. Empty: nothing, or it counts all the same.
  std::string against(const DeviceState& state, double least_mhz);
  /// Why the entry has no time: its clock was too low in kMostAgain samples. Empty: it has one.
  std::string too_slow(double least_mhz) const;
  /// Adds to the row's metrics sm_clock_mhz (the median), gpu_watts (the mean: of all that ran in those
  /// moments), samples_again and samples_held_back, each where it is known and not 0; and to its note what held
  /// the device back in samples that count.
  void tell(ResultRow& row) const;

 private:
  std::vector<double> clocks_, watts_;  ///< of the samples that count
  double highest_below_ = 0;            ///< of the clocks that were too low, MHz
  int again_ = 0;
  int held_back_ = 0;  ///< samples that count, and were taken while something held it back
  std::string by_;     ///< what did
};

}  // namespace stages
