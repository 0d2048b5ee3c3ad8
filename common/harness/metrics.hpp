#pragma once
// Metrics as people read them.

#include <array>
#include <string>

#include "common/harness/plan.hpp"

namespace stages {

/// What the lens tells of an entry that was checked and not timed, beside at_least_seconds.
inline constexpr std::array kCounted = {"asked_of_L1",  "sectors_a_nonzero", "sectors_a_product",
                                        "busiest_warp", "warp_over_mean",    "block_over_mean"};

/// "1,233", "5.56", "1.64 MB" of the metric of that name; empty: there is none.
std::string metric_text(const std::vector<Metric>& metrics, const std::string& name);
/// "asked of L1".
std::string spaced(std::string name);

}  // namespace stages
