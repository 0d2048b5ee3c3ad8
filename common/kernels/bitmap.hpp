#pragma once
// A set of column numbers as one bit each, which gives them back in ascending order without a sort: the words
// are visited in order, and within a word the lowest bit comes first. A word covers 64 columns, so the set of
// all columns of a matrix with 80,000 of them takes 10 KB and stays in the first-level cache.

#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/matrix/types.hpp"

namespace stages::bitmap {

using Word = std::uint64_t;
inline constexpr Index kWordBits = 64;

/// How many words hold `columns` bits.
inline std::size_t words(Index columns) {
  return (static_cast<std::size_t>(columns) + kWordBits - 1) / kWordBits;
}

inline std::size_t word_of(Index column) { return static_cast<std::size_t>(column) / kWordBits; }
inline Word bit_of(Index column) { return Word{1} << (static_cast<unsigned>(column) % kWordBits); }

/// Calls visit(column) for the bits of `word`, word number `position` of its set, in ascending order.
template <class Visit>
void for_each_bit(Word word, std::size_t position, Visit&& visit) {
  const Index base = static_cast<Index>(position) * kWordBits;
  for (; word != 0; word &= word - 1) visit(base + std::countr_zero(word));
}

}  // namespace stages::bitmap
