#pragma once
// Hash tables of column numbers, and a sort in place: the parts that several kernels share.

#include "08_spgemm_multigpu/product.hpp"

namespace stages::spgemm {

inline constexpr Index kFree = -1;  ///< a slot without a column

/// Where a column would like to be. The high bits of a multiplicative hash (D. E. Knuth, The Art of Computer
/// Programming 3, 6.4): neighbouring columns come to lie far apart, whereas `column & (slots - 1)` piles up
/// what lies a power of two apart. Any number of slots will do.
__device__ inline unsigned home_of(Index column, unsigned slots) {
  return __umulhi(static_cast<unsigned>(column) * 0x9E3779B1u, slots);
}

/// The slot of `column` in keys[0, slots), by linear probing from its home on. Takes a free one, atomically, if
/// the column has none yet, and says so in is_new. There must be one, or the column in the table.
__device__ inline unsigned claim(Index* keys, unsigned slots, Index column, bool& is_new) {
  for (unsigned slot = home_of(column, slots);; slot = slot + 1 == slots ? 0 : slot + 1) {
    const Index found = atomicCAS(&keys[slot], kFree, column);
    is_new = found == kFree;
    if (is_new || found == column) return slot;
  }
}

/// Writes the taken slots of a table to C from `out` on, in their order, by a warp.
template <class T>
__device__ void write_taken_slots(const Index* keys, const T* values, unsigned slots, unsigned lane,
                                  Offset out, const Output<T>& c) {
  for (unsigned first = 0; first < slots; first += kWarp) {
    const unsigned s = first + lane;
    const Index column = s < slots ? keys[s] : kFree;
    const unsigned taken = __ballot_sync(kAllLanes, column != kFree);
    if (column != kFree) {
      const Offset to = out + __popc(taken & lanes_below(lane));
      c.col_idx[to] = column;
      c.values[to] = values[s];
    }
    out += __popc(taken);
  }
}

/// Sorts n elements by exchange(i, j), which puts elements i < j into ascending order. Bitonic, in the form
/// in which all comparisons ascend: elements beyond n may then be thought of as infinite, and are never
/// touched: n need not be a power of two. `members` threads take part, this one is `me`; meet(): their barrier.
template <class Exchange, class Meet>
__device__ void sort_ascending(Index n, unsigned me, unsigned members, Exchange exchange, Meet meet) {
  const unsigned count = static_cast<unsigned>(n);
  unsigned pairs = 0;  // half the power of two that holds n
  for (unsigned half = 1; half < count; half *= 2) pairs = half;
  for (unsigned half = 1, log_half = 0; half < count; half *= 2, ++log_half) {
    for (unsigned t = me; t < pairs; t += members) {
      const unsigned start = (t >> log_half) << (log_half + 1), within = t & (half - 1);
      const unsigned partner = start + 2 * half - 1 - within;
      if (partner < count) exchange(start + within, partner);
    }
    meet();
    for (unsigned apart = half / 2, log_apart = log_half - 1; apart > 0; apart /= 2, --log_apart) {
      for (unsigned t = me; t < pairs; t += members) {
        const unsigned i = ((t >> log_apart) << (log_apart + 1)) + (t & (apart - 1));
        if (i + apart < count) exchange(i, i + apart);
      }
      meet();
    }
  }
}

}  // namespace stages::spgemm
