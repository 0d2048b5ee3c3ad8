#pragma once
// The three clocks of a product over several ranks, and the bytes that it moves.
//
//   compute        the slowest rank's own multiplications
//   distributed    these and the messages that they need, from operands that lie on the ranks to a result
//                  that stays there
//   root to root   all of it: operands on rank 0, result on rank 0
//
// Each is the maximum over the ranks in each run, then the median over the runs.

#include <mpi.h>

#include <vector>

#include "common/harness/plan.hpp"
#include "common/harness/seconds.hpp"

namespace stages::mpi {

using stages::seconds_since;

/// One run, as one rank saw it: seconds. Negative: not measured in this run.
struct RunTimes {
  double compute = -1, distributed = -1, root_to_root = -1;
};

/// Payload of the messages of one run that this rank sent, and what it wrote into shared windows.
struct RunBytes {
  Offset scatter = 0, exchange = 0, gather = 0;
};

class Clocks {
 public:
  /// `products`: how many a run makes; times are per product.
  explicit Clocks(int products = 1) : products_(products) {}
  void add(const RunTimes& times) { runs_.push_back(times); }
  void set_bytes(const RunBytes& bytes) { bytes_ = bytes; }
  const RunBytes& bytes() const { return bytes_; }

  /// Clocks and bytes as the results show them. Collective; every rank must have added the same runs.
  std::vector<Metric> metrics(MPI_Comm comm) const;

 private:
  /// The slowest rank's compute clock over the mean of all, in the median run. Beside the imbalance of what
  /// was dealt out it says whether that was time.
  double compute_imbalance(MPI_Comm comm) const;

  int products_;
  std::vector<RunTimes> runs_;
  RunBytes bytes_;
};

}  // namespace stages::mpi
