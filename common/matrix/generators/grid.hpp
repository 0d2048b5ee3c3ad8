#pragma once
// Points on a grid, and pairs of them that are kept or not.

#include <algorithm>
#include <limits>

#include "common/matrix/generators/spec.hpp"
#include "common/matrix/random.hpp"

namespace stages::recipes {

/// Whether the undirected pair {i, j} passes, for a share of all pairs in units of 2^-32.
inline bool keeps(random::Word key, Index i, Index j, random::Word share) {
  const auto low = static_cast<random::Word>(std::min(i, j)),
             high = static_cast<random::Word>(std::max(i, j));
  return (random::mix(key ^ random::mix((low << 32U) + high)) >> 32U) < share;
}

/// A grid of nx * ny * nz points; point (x, y, z) has the number (z * ny + y) * nx + x.
struct Grid {
  Index nx, ny, nz;
  Index points() const { return nx * ny * nz; }

  /// Calls visit(number) for the points at most one step away in each direction, in ascending order, and at
  /// most `reach` steps in all.
  template <class Visit>
  void neighbours(Index point, Index reach, Visit&& visit) const {
    const Index x = point % nx, y = point / nx % ny, z = point / nx / ny;
    for (Index dz = z > 0 ? -1 : 0; dz <= (z + 1 < nz ? 1 : 0); ++dz) {
      for (Index dy = y > 0 ? -1 : 0; dy <= (y + 1 < ny ? 1 : 0); ++dy) {
        for (Index dx = x > 0 ? -1 : 0; dx <= (x + 1 < nx ? 1 : 0); ++dx)
          if (dx * dx + dy * dy + dz * dz <= reach) visit(((z + dz) * ny + y + dy) * nx + x + dx);
      }
    }
  }
};

/// The grid that nx, ny and nz ask for; ny and nz are nx where not given (nz only `in_space`, else it is 1).
/// `per_point` unknowns lie on each point.
inline Grid plan_grid(const Parameters& p, bool in_space, Index per_point) {
  const Index nx = p.index("nx", 1);
  const Index ny = p.given("ny") ? p.index("ny", 1) : nx;
  if (!in_space && p.given("nz") && p.index("nz", 1) != 1)
    p.reject("nz belongs to points in space; leave it out");
  const Index nz = !in_space ? 1 : p.given("nz") ? p.index("nz", 1) : nx;
  constexpr Offset kMax = std::numeric_limits<Index>::max();
  if (Offset{nx} * ny > kMax || Offset{nx} * ny * nz > kMax || Offset{nx} * ny * nz * per_point > kMax)
    p.reject("{} x {} x {} points with {} unknowns each are more than 2^31 - 1 rows; ask for fewer", nx, ny,
             nz, per_point);
  return {nx, ny, nz};
}

}  // namespace stages::recipes
