#include "common/harness/clock.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

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

bool differ(const Summary& a, const Summary& b) {
  return std::abs(a.median - b.median) > std::hypot(a.noise * a.median, b.noise * b.median);
}

Summary beside(Summary first, const Summary& second) {
  std::vector<double> medians = std::move(first.processes), samples = std::move(first.samples);
  if (medians.empty()) medians = {first.median};
  const std::vector<double> more = second.processes.empty() ? std::vector{second.median} : second.processes;
  medians.insert(medians.end(), more.begin(), more.end());
  samples.insert(samples.end(), second.samples.begin(), second.samples.end());
  Summary out = summarize(std::move(samples));
  out.median = summarize(medians).median;
  out.noise = std::numeric_limits<double>::infinity();
  out.processes = std::move(medians);
  return out;
}

void know_processes(std::vector<Summary*> alike) {
  if (alike.empty()) return;
  const auto n = static_cast<double>(alike.front()->processes.size());
  std::vector<double> variances;  // of the logarithms of the medians: of their shares
  for (const Summary* const one : alike) {
    double sum = 0, squares = 0;
    for (const double median : one->processes) sum += std::log(median);
    for (const double median : one->processes)
      squares += (std::log(median) - sum / n) * (std::log(median) - sum / n);
    variances.push_back(squares / (n - 1));
  }
  // What is usual, in the mean, which knows of the few that move far, counts as kUsual degrees of freedom;
  // Student's t of all is that of Cornish and Fisher.
  constexpr double kUsual = 4, z = 1.96;
  const double own = n - 1, all = own + kUsual;
  const double usual =
      std::accumulate(variances.begin(), variances.end(), 0.0) / static_cast<double>(variances.size());
  const double t = z + (std::pow(z, 3) + z) / (4 * all) +
                   (5 * std::pow(z, 5) + 16 * std::pow(z, 3) + 3 * z) / (96 * all * all);
  for (std::size_t k = 0; k < alike.size(); ++k)
    alike[k]->noise = t * std::sqrt((kUsual * usual + own * variances[k]) / all * (1 + 1 / n));
}

}  // namespace stages
