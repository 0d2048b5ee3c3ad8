#pragma once
// What a product takes at least on a GPU of recorded rates, from its counts alone: a bound, and no time.

#include <functional>
#include <string>
#include <vector>

#include "common/harness/results.hpp"
#include "common/lens/recording/counts.hpp"

namespace stages {

/// The best that was recorded of a GPU: data/rates.tsv, which tools/tables.py writes from the records.
struct GpuRates {
  std::string gpu;
  double l2_bytes = 0;  ///< that the SMs got from L2 in a second
  double sms = 0;
  double wavefronts = 0;  ///< that an SM's first cache and shared memory can give together in a second
  double shortest = 0;    ///< seconds of the shortest kernel: mostly its launch
};
const GpuRates& recorded_rates();

struct Bound {
  /// What is known to take time: "launch", "L1 and shared memory", "reads of L2", "writes to L2".
  struct Limit {
    std::string name;
    double seconds = 0;
  };
  std::vector<Limit> limits;  ///< all of them
  double seconds = 0;         ///< of the longest, ...
  std::string limit;          ///< ... and its name
  double sectors = 0;         ///< that requests of global memory touch, which is what L1 is asked for
  simt::Load warp, block;     ///< of all kernels, as if they ran one after the other
};

/// kCounted (results.hpp) of a product of that problem, and the bound. Empty: nothing asked for global memory.
std::vector<Metric> counted_metrics(const Bound& bound, const ProblemFacts& problem);

/// The bound of a product that ran these kernels, which may overlap. So only what adds up over all of them
/// counts: the slowest of the paths that the data takes, each at its best rate. Of what loads touch, a kernel
/// gets each sector from L2 once at least; the rest may come from an SM's own cache.
/// A block stays on its SM: few blocks have the caches of few SMs.
Bound bound_of(const std::vector<simt::KernelCounts>& kernels, const GpuRates& rates);

/// The bound of what `run` launches, on the GPU of recorded_rates().
Bound count_bound(const std::function<void()>& run);

}  // namespace stages
