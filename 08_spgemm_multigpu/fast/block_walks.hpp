#pragma once
// The rows of B that a row of A names, walked by a whole block, in any order: to mark what is there.
//
// The block's warps deal out the non-zeros of A. With a row of B of thousands of columns, that of a hub, a warp
// would still be busy when the others are done. So such rows come last, and the whole block walks over each.

#include "08_spgemm_multigpu/fast/rows.hpp"
#include "08_spgemm_multigpu/fast/words.hpp"

namespace stages::spgemm {

/// In shared memory; `count` starts at 0.
template <class Ptr>
struct LongPieces {
  static constexpr Ptr kBlockPiece = 1024;  ///< columns; more are the block's work
  static constexpr unsigned kMost = 32;

  unsigned count;
  Ptr from[kMost], to[kMost];

  /// Whether it takes the piece. More than kMost are left to the warps.
  __device__ bool takes(const Piece<Ptr>& piece) {
    if (piece.to - piece.from <= kBlockPiece) return false;
    const unsigned at = atomicAdd(&count, 1u);
    if (at >= kMost) return false;
    from[at] = piece.from;
    to[at] = piece.to;
    return true;
  }
};

/// Calls walk(piece_of_row), which visits the pieces of all rows of B but the long ones, and then
/// visit(position) for those. By the whole block, which meets twice, and has to meet again before it reads what
/// was visited, or calls this once more.
template <class Ptr, class PieceOf, class Walk, class Visit>
__device__ void long_pieces_last(PieceOf piece_of_row, Walk walk, Visit visit) {
  __shared__ LongPieces<Ptr> later;
  if (threadIdx.x == 0) later.count = 0;
  __syncthreads();
  walk([&](Index k) {
    const Piece<Ptr> piece = piece_of_row(k);
    return later.takes(piece) ? Piece<Ptr>{} : piece;
  });
  __syncthreads();
  for (unsigned k = 0; k < min(later.count, LongPieces<Ptr>::kMost); ++k) {
    for (Ptr q = later.from[k] + static_cast<Ptr>(threadIdx.x); q < later.to[k];
         q += static_cast<Ptr>(blockDim.x)) {
      visit(q);
    }
  }
}

/// Calls visit(column) for the products of a row of C that lie in the slice (kWhole: for all).
template <bool kWhole, class Ptr, class Visit>
__device__ void walk_columns_by_block(const Structures<Ptr>& f, Index row, Slice slice, Visit visit) {
  const unsigned warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp, lane = threadIdx.x % kWarp;
  const auto load = [&](Ptr q) { return f.b.col_idx[q]; };
  long_pieces_last<Ptr>(
      [&](Index k) { return piece_of<kWhole>(f.b, k, slice); },
      [&](auto piece_of_row) { walk_together(f.a, row, warp, warps, lane, piece_of_row, load, visit); },
      [&](Ptr q) { visit(load(q)); });
}

/// As walk_words().
template <class Ptr, class Visit>
__device__ void walk_words_by_block(const Structures<Ptr>& f, const Words<Ptr>& words, Index row,
                                    Visit visit) {
  const unsigned warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp, lane = threadIdx.x % kWarp;
  const auto load = [&](Ptr q) { return words.items[q]; };
  long_pieces_last<Ptr>(
      [&](Index k) { return words.piece(f.b, k); },
      [&](auto piece_of_row) { walk_at_once<1>(f.a, row, warp, warps, lane, piece_of_row, load, visit); },
      [&](Ptr q) { visit(load(q)); });
}

}  // namespace stages::spgemm
