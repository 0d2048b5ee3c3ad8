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
  /// Of several processes: within that share the next one's median will lie, in 95 % of cases.
  double noise = 0;
  std::vector<double> samples;    ///< in the order in which they were taken
  std::vector<double> processes;  ///< medians of the processes that took them; empty: it was one
};

Summary summarize(std::vector<double> samples);
/// Whether the medians are farther apart than what is known of both; not where nothing is known of one.
bool differ(const Summary& a, const Summary& b);
/// What other processes found out beside: the median is that of their medians. Its noise is not known before
/// know_processes() has seen how much those of other rows differ.
Summary beside(Summary first, const Summary& second);

/// The noise of summaries of the same number of processes, from the variance of each one's own medians and
/// from what is usual among them all: one row has too few processes to tell.
void know_processes(std::vector<Summary*> alike);

}  // namespace stages
