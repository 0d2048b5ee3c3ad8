#include "common/matrix/nearest.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <numeric>
#include <vector>

namespace stages {
namespace {

constexpr std::size_t kMostNames = 3, kMostToList = 28;

/// Insertions, deletions, replacements and swaps of neighbours that lead from `a` to `b` (optimal string
/// alignment), letter case ignored.
std::size_t edits(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  std::iota(cost[0].begin(), cost[0].end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

/// How far `name` is from what was wanted: edits, or the difference in length where one contains the other (a
/// part of a name is a likelier mistake than many typing errors).
std::size_t distance(std::string_view wanted, std::string_view name) {
  const bool contained = wanted.size() >= 3 && (name.find(wanted) != std::string_view::npos ||
                                                wanted.find(name) != std::string_view::npos);
  return contained ? 1 : edits(wanted, name);
}

}  // namespace

std::string nearest_names(std::string_view wanted, std::span<const std::string_view> names) {
  const std::size_t tolerance = std::max<std::size_t>(2, wanted.size() / 3);
  std::vector<std::pair<std::size_t, std::string_view>> near;
  for (const std::string_view name : names) {
    const std::size_t d = distance(wanted, name);
    if (d <= tolerance) near.emplace_back(d, name);
  }
  if (near.empty()) {
    std::vector<std::string_view> of_step;
    const std::string_view step = wanted.substr(0, wanted.find('/') + 1);
    std::ranges::copy_if(names, std::back_inserter(of_step),
                         [&](auto name) { return name.starts_with(step); });
    if (!of_step.empty()) names = of_step;
    if (names.size() > kMostToList) return fmt::format("`list` shows the {} that there are", names.size());
    return fmt::format("there are {}", fmt::join(names, ", "));
  }
  std::ranges::stable_sort(near, {}, [](const auto& one) { return one.first; });
  near.resize(std::min(near.size(), kMostNames));
  std::string out = near.size() == 1 ? "the nearest is" : "the nearest are";
  for (std::size_t k = 0; k < near.size(); ++k)
    out += fmt::format("{} '{}'", k == 0 ? "" : k + 1 < near.size() ? "," : " and", near[k].second);
  return out;
}

}  // namespace stages
