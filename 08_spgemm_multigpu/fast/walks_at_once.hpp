#pragma once
// Walks along rows of B to mark what is there, with several loads of a lane at once: one after the other, each
// would wait for memory.
//
//   walk_at_once    teams of lanes share a row of B, and a lane loads from four rows before it visits anything.
//                   For rows that are short and alike, as in meshes and bands. Where they differ in length, as
//                   in graphs, three of the four have ended while the lane still works on the fourth
//   walk_together   all products of 32 non-zeros of A as one sequence, dealt to the lanes: the length of a row
//                   does not matter, but each lane has to look up whose its product is. If a row keeps nearly
//                   all lanes busy, there is nothing to deal: one row after the other

#include "08_spgemm_multigpu/fast/rows.hpp"

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

/// The same, with all products of a warp's non-zeros as one sequence.
template <class Ptr, class PieceOf, class Load, class Visit>
__device__ void walk_together(const Structure<Ptr>& a, Index row, unsigned warp, unsigned warps,
                              unsigned lane, PieceOf piece_of_row, Load load, Visit visit) {
  constexpr Ptr kAtOnce = 4;
  walk_groups<1>(
      a, row, warp, warps, lane, piece_of_row, [&](const Piece<Ptr>& piece, unsigned entries, unsigned team) {
        if (team == kWarp) {
          for (unsigned s = 0; s < entries; ++s) {
            const Ptr to = __shfl_sync(kAllLanes, piece.to, static_cast<int>(s));
            Ptr q = __shfl_sync(kAllLanes, piece.from, static_cast<int>(s)) + static_cast<Ptr>(lane);
            for (; q < to; q += static_cast<Ptr>(kWarp)) visit(load(q));
          }
          return;
        }
        const auto all = together(piece, lane);
        for (Ptr first = 0; first < all.total; first += kAtOnce * Ptr{kWarp}) {
          decltype(load(first)) items[kAtOnce];
#pragma unroll
          for (Ptr u = 0; u < kAtOnce; ++u) {
            const Ptr q = first + u * Ptr{kWarp} + static_cast<Ptr>(lane);
            const Ptr at = __shfl_sync(kAllLanes, all.place, static_cast<int>(all.owner_of(q))) + q;
            if (q < all.total) items[u] = load(at);
          }
#pragma unroll
          for (Ptr u = 0; u < kAtOnce; ++u) {
            if (first + u * Ptr{kWarp} + static_cast<Ptr>(lane) < all.total) visit(items[u]);
          }
        }
      });
}

/// Calls visit(column) for the products of row `row` of C, by one warp. For rows of B that are short and alike.
template <class Ptr, class Visit>
__device__ void walk_columns_at_once(const Structures<Ptr>& f, Index row, unsigned lane, Visit visit) {
  walk_at_once<4>(
      f.a, row, 0, 1, lane, [&](Index k) { return piece_of<true>(f.b, k, {}); },
      [&](Ptr q) { return f.b.col_idx[q]; }, visit);
}

/// The same, of any rows of B, by one of `warps`.
template <class Ptr, class Visit>
__device__ void walk_columns_together(const Structures<Ptr>& f, Index row, unsigned warp, unsigned warps,
                                      unsigned lane, Visit visit) {
  walk_together(
      f.a, row, warp, warps, lane, [&](Index k) { return piece_of<true>(f.b, k, {}); },
      [&](Ptr q) { return f.b.col_idx[q]; }, visit);
}

}  // namespace stages::spgemm
