#pragma once
// Planted hub rows: what one row with a large share of a matrix does to a kernel is among the first questions
// asked of it, and random graphs rarely have a row as long as the real graph's longest.

#include <array>

#include "common/matrix/generators/generators.hpp"
#include "common/matrix/random.hpp"

namespace stages::recipes {

/// Up to three rows at pseudo-random places, of given lengths. A row's columns start at a pseudo-random place
/// and lie cols * 0.618... apart modulo cols (the step is a nearby number without a common divisor with cols,
/// so that no column repeats): spread evenly whatever the length.
class HubRows {
 public:
  HubRows() = default;
  HubRows(Index rows, Index cols, std::array<Offset, 3> lengths, random::Word seed);

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
HubRows plan_hubs(const Parameters& p, Index rows, Index cols, Offset drawn, Offset hub_max);

/// The entries of `base`, the last of which are replaced by hubs' entries.
template <class Base>
struct WithHubs {
  Base base;
  HubRows hubs;
  Offset hubs_from;  ///< count of entries - hubs.total()

  Place operator()(Offset k) const { return k < hubs_from ? base(k) : hubs(k - hubs_from); }
};

}  // namespace stages::recipes
