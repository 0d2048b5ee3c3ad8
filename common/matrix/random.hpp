#pragma once
// Random numbers as a pure function of (seed, purpose, index): any thread can compute any of them, in any
// order, on any machine, and gets the same bits.
//
// The generator is SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA
// 2014), whose k-th output is a hash of start + k * golden; the start is a hash of the three coordinates. The
// standard library's distributions are not used, since each vendor implements them differently, and nothing
// here rounds: shares and powers are computed in 64-bit fixed point, because pow and exp differ in the last
// bit between C libraries, and even a * b + c does where one compiler fuses it.

#include <bit>
#include <cstdint>

#include "common/matrix/types.hpp"

namespace stages::random {

using Word = std::uint64_t;

/// 2^64 divided by the golden ratio, made odd: SplitMix64's increment.
inline constexpr Word kGolden = 0x9E3779B97F4A7C15U;

/// SplitMix64's output function: a bijection of 64-bit words in which every input bit changes every output
/// bit.
constexpr Word mix(Word z) {
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

/// The upper 64 bits of the 128-bit product: for a uniform `word`, a uniform integer in [0, bound), whose
/// bias (bound / 2^64) no sample of a matrix's size can show. Read as fractions of 2^64, it is the product.
constexpr Word scale(Word word, Word bound) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<Word>((static_cast<Wide>(word) * bound) >> 64U);
}

/// What numbers are for. Each purpose is a stream of its own, so that decisions are independent of each
/// other. The numbers are part of what a spec means: never change one.
enum class Purpose : Word {
  edges = 1,
  hub_rows = 2,
  hub_columns = 3,
  relabel = 4,
  cells = 5,
  row_sample = 6,
  keep = 7,
  values = 8,
  row_shares = 9,
  col_shares = 10,
};

/// The key of the numbers for one purpose under one seed.
constexpr Word key(Word seed, Purpose purpose) {
  return mix(mix(seed + kGolden) + static_cast<Word>(purpose) * kGolden);
}

/// The numbers that belong to one index (an edge, a row): call next() as often as the decision needs.
class Stream {
 public:
  constexpr Stream(Word key, Word index) : state_(mix(key ^ (index * kGolden))) {}
  constexpr Word next() { return mix(state_ += kGolden); }
  /// Uniform in [0, bound).
  constexpr Word below(Word bound) { return scale(next(), bound); }

 private:
  Word state_;
};

/// A pseudo-random bijection of [0, size): a Feistel network of six rounds on the next power of two, applied
/// again while the result falls outside (Black and Rogaway: Ciphers with arbitrary finite domains, CT-RSA
/// 2002). It draws distinct cells without remembering those drawn before, and shuffles vertices without a
/// list.
class Permutation {
 public:
  /// size >= 1.
  constexpr Permutation(Word size, Word key) : size_(size), key_(key) {
    const auto bits = static_cast<unsigned>(std::bit_width(size - 1));
    low_bits_ = (bits + 1) / 2;
    low_mask_ = (Word{1} << low_bits_) - 1;
    high_mask_ = (Word{1} << (bits - low_bits_)) - 1;
  }
  constexpr Word operator()(Word x) const {
    do {
      Word high = x >> low_bits_, low = x & low_mask_;
      for (Word round = 0; round < 6; round += 2) {
        high ^= mix(key_ ^ ((low << 3U) + round)) & high_mask_;
        low ^= mix(key_ ^ ((high << 3U) + round + 1)) & low_mask_;
      }
      x = (high << low_bits_) | low;
    } while (x >= size_);
    return x;
  }

 private:
  Word size_, key_;
  unsigned low_bits_ = 0;
  Word low_mask_ = 0, high_mask_ = 0;
};

}  // namespace stages::random
