#include "common/matrix/generators/hubs.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace stages::recipes {

HubRows::HubRows(Index rows, Index cols, std::array<Offset, 3> lengths, random::Word seed)
    : cols_(cols), lengths_(lengths) {
  const auto width = static_cast<random::Word>(cols);
  const random::Permutation place(static_cast<random::Word>(rows),
                                  random::key(seed, random::Purpose::hub_rows));
  random::Stream columns(random::key(seed, random::Purpose::hub_columns), 0);
  for (std::size_t hub = 0; hub < 3; ++hub) {
    if (lengths_[hub] == 0) continue;
    row_[hub] = static_cast<Index>(place(hub));
    first_column_[hub] = columns.below(width);
  }
  step_ = std::max<random::Word>(1, random::scale(random::kGolden, width));
  while (std::gcd(step_, width) != 1) ++step_;
}

HubRows plan_hubs(const Parameters& p, Index rows, Index cols, Offset drawn, Offset hub_max) {
  std::array<Offset, 3> lengths{};
  if (const std::uint64_t share = p.share("hub_share"); share > 0) {
    lengths[0] = static_cast<Offset>(random::scale(static_cast<random::Word>(drawn), share << 32U));
    if (share >> 32U != 0) lengths[0] = drawn;
  } else if (hub_max > 0) {
    lengths = {hub_max, hub_max * 7 / 10, hub_max / 2};
    if (rows < 3) p.reject(fmt::format("three hub rows do not fit into {} rows", rows));
  } else {
    return {};
  }
  if (lengths[0] > cols) {
    p.reject(
        fmt::format("a hub row of {} entries does not fit into {} columns; ask for a shorter hub, or for "
                    "fewer entries altogether",
                    lengths[0], cols));
  }
  if (lengths[0] + lengths[1] + lengths[2] > drawn) {
    p.reject(
        fmt::format("hubs of {}, {} and {} entries are more than the {} entries drawn; ask for shorter hubs",
                    lengths[0], lengths[1], lengths[2], drawn));
  }
  return {rows, cols, lengths, p.seed()};
}

}  // namespace stages::recipes
