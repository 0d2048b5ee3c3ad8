#pragma once
// As walk_positions() of rows.hpp, with several loads at once. A lane loads from four rows of B before it
// visits anything: where these are short and alike, as in meshes and bands, it would wait for one load after
// the other. Where they differ in length, as in graphs, three of the four have ended while the lane still works
// on the fourth, and all four are asked for in vain: it takes longer.

#include "08_spgemm_multigpu/rows.hpp"

namespace stages::spgemm {

/// Calls visit(load(position)) for all positions of the pieces.
template <unsigned kLeastTeam, class Ptr, class PieceOf, class Load, class Visit>
__device__ void walk_at_once(const Structure<Ptr>& a, Index row, unsigned warp, unsigned warps, unsigned lane,
                             PieceOf piece_of_row, Load load, Visit visit) {
  constexpr unsigned kRows = 4;
  walk_groups<kLeastTeam>(
      a, row, warp, warps, lane, piece_of_row, [&](const Piece<Ptr>& piece, unsigned entries, unsigned team) {
        for (unsigned s = 0; s < entries; s += kRows * (kWarp / team)) {
          Ptr at[kRows], to[kRows];
          bool is_left = false;
#pragma unroll
          for (unsigned u = 0; u < kRows; ++u) {
            const unsigned source = s + u * (kWarp / team) + lane / team;
            at[u] =
                __shfl_sync(kAllLanes, piece.from, static_cast<int>(source)) + static_cast<Ptr>(lane % team);
            to[u] = __shfl_sync(kAllLanes, piece.to, static_cast<int>(source));
            if (source >= kWarp) to[u] = at[u];  // there is no such lane
            is_left = is_left || at[u] < to[u];
          }
          while (is_left) {
            decltype(load(at[0])) items[kRows];
#pragma unroll
            for (unsigned u = 0; u < kRows; ++u) {
              if (at[u] < to[u]) items[u] = load(at[u]);
            }
            is_left = false;
#pragma unroll
            for (unsigned u = 0; u < kRows; ++u) {
              if (at[u] >= to[u]) continue;
              visit(items[u]);
              at[u] += static_cast<Ptr>(team);
              is_left = is_left || at[u] < to[u];
            }
          }
        }
      });
}

/// As walk_columns() for whole rows of B, by one warp.
template <class Ptr, class Visit>
__device__ void walk_columns_at_once(const Structures<Ptr>& f, Index row, unsigned lane, Visit visit) {
  walk_at_once<4>(
      f.a, row, 0, 1, lane, [&](Index k) { return piece_of<true>(f.b, k, {}); },
      [&](Ptr q) { return f.b.col_idx[q]; }, visit);
}

}  // namespace stages::spgemm
