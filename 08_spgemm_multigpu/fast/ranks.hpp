#pragma once
// A set of columns that knows ranks: a bit for each column of a range, and the number of bits before each
// word. The place of a column among those of the set is one look-up, and the columns are the bits in order.
//
// Source: G. Jacobson ("Space-efficient static trees and graphs", FOCS 1989).

#include "08_spgemm_multigpu/fast/rows.hpp"

namespace stages::spgemm {

/// In shared memory. `before` is known once all columns are marked and the words are numbered; the set may
/// hold 65,535 columns.
struct Ranks {
  unsigned* words = nullptr;
  unsigned short* before = nullptr;
  Index begin = 0;       ///< the first column of the range
  Index used_words = 0;  ///< of the range

  /// By several threads at a time.
  __device__ void mark(Index column) const {
    const auto at = static_cast<unsigned>(column - begin);
    atomicOr(&words[at / 32], 1u << (at % 32));
  }
  __device__ Index place(Index column) const {
    const auto at = static_cast<unsigned>(column - begin);
    return before[at / 32] + __popc(words[at / 32] & lanes_below(at % 32));
  }
  __device__ void clear(unsigned me, unsigned members) const {
    for (Index w = static_cast<Index>(me); w < used_words; w += static_cast<Index>(members)) words[w] = 0;
  }

  /// A thread's stretch of words, [from, to). Its length is odd, so that threads read from different banks.
  struct Stretch {
    Index from = 0;
    Index to = 0;
  };
  __device__ Stretch stretch_of(unsigned me, unsigned members) const {
    const Index length = (used_words + static_cast<Index>(members) - 1) / static_cast<Index>(members) | 1;
    const Index from = min(static_cast<Index>(me) * length, used_words);
    return {from, min(from + length, used_words)};
  }
  __device__ Index bits_of(Stretch stretch) const {
    Index bits = 0;
    for (Index w = stretch.from; w < stretch.to; ++w) bits += __popc(words[w]);
    return bits;
  }
  __device__ void number(Stretch stretch, Index bits_before) const {
    for (Index w = stretch.from; w < stretch.to; ++w) {
      before[w] = static_cast<unsigned short>(bits_before);
      bits_before += __popc(words[w]);
    }
  }

  /// The columns of the set to col_idx[0], ...
  __device__ void write_columns(Index* col_idx, unsigned me, unsigned members) const {
    for (Index w = static_cast<Index>(me); w < used_words; w += static_cast<Index>(members)) {
      Index* to = col_idx + before[w];
      for (unsigned bits = words[w]; bits != 0; bits &= bits - 1) {
        *to++ = begin + w * 32 + __ffs(static_cast<int>(bits)) - 1;
      }
    }
  }

  /// The column of that rank, which must be in the set.
  __device__ Index column_of(Index rank) const {
    Index low = 0;
    for (Index high = used_words; high - low > 1;) {
      const Index middle = (low + high) / 2;
      (before[middle] <= rank ? low : high) = middle;
    }
    unsigned bits = words[low];
    for (Index skip = rank - before[low]; skip > 0; --skip) bits &= bits - 1;
    return begin + low * 32 + __ffs(static_cast<int>(bits)) - 1;
  }
};

}  // namespace stages::spgemm
