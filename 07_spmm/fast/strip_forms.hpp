#pragma once
// The forms of strips.cu: how many lanes take a strip of columns, how many columns each of them, and how many
// loads it has under way. A form is a type, so that the compiler unrolls its loops and keeps all that a lane
// has in registers; the table below has all, and finds that of a Granularity. Only strips.cu includes this.

#include "07_spmm/fast/granularity.hpp"
#include "07_spmm/fast/kernels.hpp"
#include "07_spmm/fast/packed_b.hpp"

namespace stages::spmm {

inline constexpr unsigned kRegistersOfSm = 65536;  ///< of 32 bits

/// How a group of kLanes takes a strip: a lane has kRepeats times kVector neighbouring columns, and asks for
/// those of kAhead rows of B at once.
template <class T, unsigned kLanes_, unsigned kVector_, unsigned kRepeats_, unsigned kAhead_,
          unsigned kBlock_ = kSmallBlock>
struct StripForm {
  using Value = T;
  static constexpr unsigned kLanes = kLanes_, kVector = kVector_, kRepeats = kRepeats_, kAhead = kAhead_;
  static constexpr unsigned kBlock = kBlock_;
  static constexpr unsigned kSums = kVector * kRepeats;  ///< columns of a lane
  static constexpr unsigned kApart = kLanes * kVector;   ///< from one repeat to the next
  static constexpr unsigned kStrip = kLanes * kSums;
  static constexpr unsigned kGroups = kBlock / kLanes;  ///< of a block
  /// What a thread needs in registers: its part of the rows of B and of the sums, and all else. With so many
  /// no form was seen to spill any (nvcc 13, sm_80 and sm_90).
  static constexpr unsigned kRegisters = 32 + 8 * kRepeats + (kAhead + 1) * kSums * sizeof(T) / 4 +
                                         (sizeof(T) == 8 && kAhead * kSums > 8 ? 12 : 0);
  /// The blocks that an SM then has room for.
  static constexpr unsigned kBlocks = kRegistersOfSm / (kBlock * kRegisters);
  /// A bit for each non-zero of the first batch of each group of a warp.
  static constexpr unsigned kFirstBatch = (1u << kAhead) - 1;
  static constexpr unsigned kFirstBatches = kLanes == 4    ? kFirstBatch * 0x11111111u
                                            : kLanes == 8  ? kFirstBatch * 0x01010101u
                                            : kLanes == 16 ? kFirstBatch * 0x00010001u
                                                           : kFirstBatch;
  /// Whether a packed B may have dealt it the columns (packed_b.hpp).
  static constexpr bool kMayBeDealt = kVector > 1 && kRepeats == 1 && kStrip >= kVectorStrip;
  static_assert(kLanes % kAhead == 0 && kLanes >= 4);
};

/// Calls `go` with the StripForm of `g` where B has no vectors, or where a rule gives each lane a column of a
/// narrow strip. A lane has one column, two or three, which lie 32 apart.
template <class T, class Go>
auto with_single_columns(const Granularity& g, Go&& go) {
  if (g.block == Index{kSmallBlock}) {
    if (g.strip == 8) return go(StripForm<T, 8, 1, 1, 8>{});
    if (g.strip == 16) return go(StripForm<T, 16, 1, 1, 8>{});
    if (g.strip == 32 && g.lanes == 32) return go(StripForm<T, 32, 1, 1, 8>{});
    if (g.strip == 64 && g.lanes == 32) return go(StripForm<T, 32, 1, 2, 8>{});
    if (g.strip == 96 && g.lanes == 32) return go(StripForm<T, 32, 1, 3, 4>{});
  }
  fail(
      "balanced: strips of {} columns on {} lanes and blocks of {} threads were asked for, where rows of B "
      "are not aligned; give strips of 8 or 16, or of 32, 64 or 96 on 32 lanes, and 128 threads",
      g.strip, g.lanes, g.block);
}

/// Calls `go` with the StripForm of `g`, with vectors where rows of B are `aligned`.
template <class T, class Go>
void with_form(const Granularity& g, bool aligned, Go&& go) {
  if (!aligned || (g.strip < kVectorStrip && g.lanes == g.strip)) return with_single_columns<T>(g, go);
  constexpr unsigned kVector = kVectorLength<T>;
  const bool small_block = g.block == Index{kSmallBlock};
  if (small_block && g.lanes == 4 && g.loads == 4) {
    if (g.strip == 8) return go(StripForm<T, 4, 2, 1, 4>{});
    if constexpr (kVector == 4) {
      if (g.strip == 16) return go(StripForm<T, 4, kVector, 1, 4>{});
    }
  }
  if (small_block && g.strip == g.lanes * Index{kVector}) {
    if (g.lanes == 8 && g.loads == 4) return go(StripForm<T, 8, kVector, 1, 4>{});
    if (g.lanes == 8 && g.loads == 8) return go(StripForm<T, 8, kVector, 1, 8>{});
    if (g.lanes == 16 && g.loads == 4) return go(StripForm<T, 16, kVector, 1, 4>{});
    if (g.lanes == 16 && g.loads == 8) return go(StripForm<T, 16, kVector, 1, 8>{});
  }
  if constexpr (kVector == 4) {
    if (small_block && g.strip == kWideStrip && g.lanes == 16 && g.loads == 8)
      return go(StripForm<T, 16, kVector, 2, 4>{});
  }
  fail(
      "balanced: strips of {} columns on {} lanes, {} loads and blocks of {} threads were asked for; "
      "give 8 or 16 lanes with a vector of {} columns each, 4 or 8 loads, and 128 threads; or 4 lanes and 4 "
      "loads; or 128 floats on 16 lanes with 8 loads",
      g.strip, g.lanes, g.loads, g.block, kVector);
}

}  // namespace stages::spmm
