#include "common/mpi/clocks.hpp"

#include <algorithm>
#include <limits>

#include "common/harness/clock.hpp"
#include "common/mpi/check.hpp"
#include "common/mpi/transfer.hpp"

namespace stages::mpi {

std::vector<Metric> Clocks::metrics(MPI_Comm comm) const {
  const auto median = [&](double RunTimes::*clock) {
    std::vector<double> samples;
    for (const RunTimes& run : runs_)
      if (run.*clock >= 0) samples.push_back(run.*clock);
    if (samples.empty()) return std::numeric_limits<double>::quiet_NaN();
    max_over_ranks(samples, comm);
    return summarize(std::move(samples)).median / products_;
  };
  double bytes[3] = {static_cast<double>(bytes_.scatter), static_cast<double>(bytes_.exchange),
                     static_cast<double>(bytes_.gather)};
  sum_over_ranks(bytes, comm);
  return {{"compute_seconds", median(&RunTimes::compute), "s"},
          {"compute_imbalance", compute_imbalance(comm), ""},
          {"distributed_seconds", median(&RunTimes::distributed), "s"},
          {"root_to_root_seconds", median(&RunTimes::root_to_root), "s"},
          {"bytes_scattered", bytes[0], "B"},
          {"bytes_exchanged", bytes[1] / products_, "B"},
          {"bytes_gathered", bytes[2], "B"},
          {"bytes_moved", bytes[0] + bytes[1] + bytes[2], "B"}};
}

double Clocks::compute_imbalance(MPI_Comm comm) const {
  const int ranks = rank_count(comm);
  std::vector<double> slowest, sum;
  for (const RunTimes& run : runs_) slowest.push_back(std::max(run.compute, 0.0));
  if (slowest.empty()) return std::numeric_limits<double>::quiet_NaN();
  sum = slowest;
  max_over_ranks(slowest, comm);
  sum_over_ranks(sum, comm);
  std::vector<double> ratios;
  for (std::size_t k = 0; k < sum.size(); ++k) ratios.push_back(sum[k] > 0 ? slowest[k] * ranks / sum[k] : 1);
  return summarize(std::move(ratios)).median;
}

}  // namespace stages::mpi
