#pragma once
// Planted hub rows: what one row with a large share of a matrix does to a kernel is among the first questions
// asked of it, and random graphs rarely have a row as long as the real graph's longest.

#include <algorithm>
#include <array>
#include <utility>

#include "common/matrix/generators/generators.hpp"
#include "common/matrix/random.hpp"

namespace stages::recipes {

/// The largest quotient that Euclid's algorithm meets on the way down from n / step, or 0 if they have a
/// common divisor. The multiples of step modulo n are spread the more evenly, however many of them are taken,
/// the smaller it is.
inline random::Word largest_quotient(random::Word n, random::Word step) {
  random::Word largest = 0;
  while (step != 0) {
    largest = std::max(largest, n / step);
    n = std::exchange(step, n % step);
  }
  return n == 1 ? largest : 0;
}

/// The number near n * 0.618... that spreads best (n's nearest integer alone may not: 1000 has 619, and 21
/// steps of it are 13 turns less 1).
inline random::Word golden_step(random::Word n) {
  const random::Word golden = std::max<random::Word>(1, random::scale(random::kGolden, n));
  random::Word best = 1, best_quotient = n;
  for (random::Word distance = 0; distance <= std::min<random::Word>(64, n / 8); ++distance) {
    for (const random::Word step : {golden - distance, golden + distance}) {
      const random::Word quotient = largest_quotient(n, step);
      if (quotient == 0 || quotient >= best_quotient) continue;
      best = step;
      best_quotient = quotient;
    }
  }
  return best;
}

/// Up to three rows at pseudo-random places, of given lengths. A row's columns start at a pseudo-random place
/// and lie cols * 0.618... apart modulo cols (the step is a nearby number without a common divisor with cols,
/// so that no column repeats): spread evenly whatever the length.
class HubRows {
 public:
  HubRows() = default;
  HubRows(Index rows, Index cols, std::array<Offset, 3> lengths, random::Word seed)
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
    step_ = golden_step(width);
  }

  /// How many entries the hubs hold together.
  Offset total() const { return lengths_[0] + lengths_[1] + lengths_[2]; }

  /// Entry k in [0, total()).
  Place operator()(Offset k) const {
    std::size_t hub = 0;
    for (; k >= lengths_[hub]; ++hub) k -= lengths_[hub];
    const auto cols = static_cast<random::Word>(cols_);
    const random::Word column = (first_column_[hub] + static_cast<random::Word>(k) * step_) % cols;
    return {row_[hub], static_cast<Index>(column)};
  }

 private:
  Index cols_ = 1;
  std::array<Offset, 3> lengths_{};
  std::array<Index, 3> row_{};
  std::array<random::Word, 3> first_column_{};
  random::Word step_ = 1;
};

/// The parameters that ask for hubs, for a generator's table.
inline constexpr GeneratorParameter kHubMax{
    "hub_max", "0", "plants three hub rows with 1.0, 0.7 and 0.5 times this many entries"};
inline constexpr GeneratorParameter kHubShare{
    "hub_share", "0", "plants one hub row with this share of the entries drawn (instead of hub_max)"};

/// The hubs that `p` asks for in a rows x cols matrix of which `drawn` entries are drawn; `hub_max` stands in
/// where p does not give the parameter. Rejects hubs that are longer than a row or more than is drawn.
inline HubRows plan_hubs(const Parameters& p, Index rows, Index cols, Offset drawn, Offset hub_max) {
  if (p.given("hub_max") && p.given("hub_share")) p.reject("give hub_max or hub_share, not both");
  std::array<Offset, 3> lengths{};
  if (const std::uint64_t share = p.share("hub_share"); share > 0) {
    lengths[0] = static_cast<Offset>(random::scale(static_cast<random::Word>(drawn), share << 32U));
    if (share >> 32U != 0) lengths[0] = drawn;
  } else if (hub_max > 0) {
    lengths = {hub_max, hub_max * 7 / 10, hub_max / 2};
    if (rows < 3) p.reject("three hub rows do not fit into {} rows", rows);
  } else {
    return {};
  }
  if (lengths[0] > cols)
    p.reject(
        "a hub row of {} entries does not fit into {} columns; ask for a shorter hub, or for "
        "fewer entries altogether",
        lengths[0], cols);
  if (lengths[0] + lengths[1] + lengths[2] > drawn)
    p.reject("hubs of {}, {} and {} entries are more than the {} entries drawn; ask for shorter hubs",
             lengths[0], lengths[1], lengths[2], drawn);
  return {rows, cols, lengths, p.seed()};
}

}  // namespace stages::recipes
