#pragma once
// What is said of repeated timings: the median, the quartiles, and how well the median is known.

#include <vector>

namespace stages {

/// Samples in seconds, and what they say. All fields are 0 where there are no samples.
struct Summary {
  double median = 0;
  double q1 = 0;  ///< a quarter of the samples lie below
  double q3 = 0;  ///< a quarter of the samples lie above
  double min = 0;
  double max = 0;
  /// Half the width of the 95 % confidence interval of the median, as a share of it, by order statistics (no
  /// distribution is assumed): the samples at n/2 -+ 0.98 sqrt(n). Infinite below 6 samples, where none exists.
  double noise = 0;
  std::vector<double> samples;  ///< in the order in which they were taken
};

Summary summarize(std::vector<double> samples);

}  // namespace stages
