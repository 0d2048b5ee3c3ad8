#include "common/harness/clock.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace stages {
namespace {

/// The value below which a share `q` of the sorted samples lies, interpolated between neighbours.
double quantile(const std::vector<double>& sorted, double q) {
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Summary summarize(std::vector<double> samples) {
  Summary out;
  out.samples = std::move(samples);
  if (out.samples.empty()) return out;
  std::vector<double> sorted = out.samples;
  std::sort(sorted.begin(), sorted.end());
  out.median = quantile(sorted, 0.5);
  out.q1 = quantile(sorted, 0.25);
  out.q3 = quantile(sorted, 0.75);
  out.min = sorted.front();
  out.max = sorted.back();
  const auto n = static_cast<double>(sorted.size());
  if (sorted.size() < 6) {
    out.noise = std::numeric_limits<double>::infinity();
  } else {
    const double reach = 0.98 * std::sqrt(n);
    const auto low = static_cast<std::size_t>(std::max(0.0, std::floor(n / 2 - reach)));
    const auto high = static_cast<std::size_t>(std::min(n - 1, std::ceil(n / 2 + reach)));
    out.noise = (sorted[high] - sorted[low]) / 2 / out.median;
  }
  return out;
}

}  // namespace stages
