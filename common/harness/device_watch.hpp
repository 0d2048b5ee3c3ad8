#pragma once
// Which samples count: those taken while something held the device back do not, and are taken again.

#include <string>
#include <vector>

#include "common/harness/exec.hpp"

namespace stages {

struct ResultRow;

/// Looks at the device after each sample of one entry, on each rank.
class DeviceWatch {
 public:
  /// Samples of an entry that are taken again at most because something held the device back, and, one after
  /// the other, because its clock was too low.
  static constexpr int kMostAgain = 50;

  /// What becomes of a sample; of several ranks the last of these holds.
  enum class Verdict { counts, again, too_slow };

  /// Samples count at a clock of at least `least_mhz`; no more than `most_seconds` go into taking again.
  DeviceWatch(double least_mhz, double most_seconds) : least_mhz_(least_mhz), most_seconds_(most_seconds) {}

  /// Changes nothing: what is to become of the sample just taken is for all ranks to agree on.
  Verdict judge(const DeviceState& state) const;
  /// It counts.
  void count(const DeviceState& state);
  /// It was taken again, for `state` here or another rank's; in `seconds`, with what the device got to recover.
  void take_again(const DeviceState& state, double seconds);
  /// Why the entry has no time, where the verdict was too_slow here or on another rank.
  std::string why_too_slow(const DeviceState& state) const;
  /// Adds to the row's metrics sm_clock_mhz (the median of the samples that count, on this rank),
  /// samples_again and samples_held_back (those that count all the same; both of the rank that has most), each
  /// where it is known and not 0; and to its note what held the device back in samples that count, or that
  /// this rank's does not tell. Collective.
  void tell(ResultRow& row, Communicator& ranks) const;

 private:
  bool is_too_slow(const DeviceState& state) const {
    return state.clock_mhz.value_or(least_mhz_) < least_mhz_;
  }

  double least_mhz_, most_seconds_;
  std::vector<double> clocks_;  ///< of the samples that count
  int again_ = 0;
  double again_seconds_ = 0;
  int low_in_turn_ = 0;  ///< samples taken again since one counted, at too low a clock
  double low_seconds_ = 0;
  double highest_low_ = 0;  ///< the highest of those clocks, MHz
  int held_back_ = 0;       ///< samples that count, and were taken while something held the device back
  std::string by_;          ///< what did
  bool not_told_ = false;   ///< of a sample that counts the device told its clock and not what held it back
};

/// Throws Error where `state` lacks what a clock of at least `least_mhz` is to be known by.
void require_told(const DeviceState& state, double least_mhz);

}  // namespace stages
