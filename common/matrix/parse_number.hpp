#pragma once
// Numbers from text, fast. A Matrix Market file is nearly all digits, so reading one is as fast as this file.
//
// The idea: eight bytes are loaded at once; one comparison finds how many of them are digits, a shift drops
// the rest, and three multiplications turn what remains into a number, without a branch on the count, which
// no predictor could guess. (Eight digits by three multiplications: D. Lemire, "Quickly parsing eight
// digits", 2018.)
//
// A decimal m * 10^-q with m < 2^64 and q <= 27 is rounded exactly with integers alone, because 5^27 < 2^64:
// m is divided by 5^q to 64 bits, what remains is kept as one sticky bit, and the hardware's conversion of
// that integer rounds to nearest. The division is by a constant of a table, so two multiplications do it (N.
// Moeller, T. Granlund, "Improved division by invariant integers", 2011). That covers what is written with up
// to 19 digits and no extreme exponent; everything else is the careful path's, std::from_chars.
//
// Input: the bytes must be followed by a byte that cannot continue a number (the reader's lines end in '\n'),
// and by 32 readable bytes, since whole words are loaded past the end. Every function here returns nullptr
// where it cannot be sure: the caller then takes the careful path, which decides and says what is wrong.

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace stages::parse {

__extension__ using Wide = unsigned __int128;

inline std::uint64_t load_word(const char* p) {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof word);
  if constexpr (std::endian::native == std::endian::big) {
    std::uint64_t swapped = 0;
    for (int i = 0; i < 8; ++i) swapped = swapped << 8 | ((word >> (8 * i)) & 0xff);
    word = swapped;
  }
  return word;
}

/// Up to eight digits at the start of eight bytes: how many, and their value.
struct Digits {
  unsigned count;
  std::uint64_t value;
};

inline Digits leading_digits(const char* p) {
  // '0'..'9' become 0..9; adding 0x76 then sets the top bit of every byte above 9 that had none.
  std::uint64_t word = load_word(p) ^ 0x3030303030303030u;
  const std::uint64_t others =
      (((word & 0x7f7f7f7f7f7f7f7fu) + 0x7676767676767676u) | word) & 0x8080808080808080u;
  const unsigned count = others == 0 ? 8u : static_cast<unsigned>(std::countr_zero(others)) / 8u;
  // The first digit is the lowest byte: shifting up puts zeros in front of it. A shift by 64 is undefined, so
  // it is made of two.
  word = (word << (4 * (8 - count))) << (4 * (8 - count));
  word = (word * 10 + (word >> 8)) & 0x00ff00ff00ff00ffu;    // four pairs
  word = (word * 100 + (word >> 16)) & 0x0000ffff0000ffffu;  // two fours
  word = (word * 10000 + (word >> 32)) & 0xffffffffu;        // eight digits
  return {count, word};
}

inline constexpr std::array<std::uint64_t, 20> kPowersOfTen = [] {
  std::array<std::uint64_t, 20> powers{};
  std::uint64_t power = 1;
  for (auto& p : powers) {
    p = power;
    power *= 10;
  }
  return powers;
}();

/// A number without a sign, of at most 10 digits: a row, a column.
inline const char* unsigned_fast(const char* p, std::uint64_t& value) {
  const Digits head = leading_digits(p);
  if (head.count == 0) return nullptr;
  value = head.value;
  p += head.count;
  if (head.count == 8) {
    const Digits tail = leading_digits(p);
    if (tail.count > 2) return nullptr;
    value = value * kPowersOfTen[tail.count] + tail.value;
    p += tail.count;
  }
  return p;
}

/// 5^q, shifted so that its top bit is set, and the reciprocal by which division becomes multiplication.
struct FifthPower {
  std::uint64_t normalised;
  std::uint64_t reciprocal;
  int shift;
};

inline constexpr int kLargestFifthPower = 27;

inline constexpr std::array<FifthPower, kLargestFifthPower + 1> kFifthPowers = [] {
  std::array<FifthPower, kLargestFifthPower + 1> powers{};
  std::uint64_t power = 1;
  for (auto& p : powers) {
    p.shift = std::countl_zero(power);
    p.normalised = power << p.shift;
    p.reciprocal = static_cast<std::uint64_t>(~Wide{0} / p.normalised - (Wide{1} << 64));
    power *= 5;
  }
  return powers;
}();

/// m * 10^-q, rounded to nearest (ties to even). 0 < m, 0 <= q <= 27.
template <class T>
T divide_by_power_of_ten(std::uint64_t m, int q) {
  const FifthPower& d = kFifthPowers[static_cast<std::size_t>(q)];
  const int m_shift = std::countl_zero(m);
  const std::uint64_t m_normalised = m << m_shift;
  // (high, low) / 2^64 is m's fraction, halved if needed so that the quotient fits into 64 bits: its top bit
  // is then set.
  const int halved = m_normalised >= d.normalised ? 1 : 0;
  const std::uint64_t high = m_normalised >> halved;
  const std::uint64_t low = (m_normalised << (63 * halved)) & (halved != 0 ? 0x8000000000000000u : 0u);

  const Wide estimate = Wide{d.reciprocal} * high + (Wide{high} << 64 | low);
  std::uint64_t quotient = static_cast<std::uint64_t>(estimate >> 64) + 1;
  std::uint64_t rest = low - quotient * d.normalised;
  if (rest > static_cast<std::uint64_t>(estimate)) {
    --quotient;
    rest += d.normalised;
  }
  if (rest >= d.normalised) {
    ++quotient;
    rest -= d.normalised;
  }

  // One bit fewer, so that the conversion is from a signed integer: one instruction, rounded to nearest. The
  // bits that fall off the end survive as the sticky lowest bit.
  const std::uint64_t kept = quotient >> 1 | (quotient & 1) | (rest != 0 ? 1u : 0u);
  const T rounded = static_cast<T>(static_cast<std::int64_t>(kept));
  const int exponent = 1 + halved - 64 + d.shift - m_shift - q;
  const double scale = std::bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent) << 52);
  return static_cast<T>(static_cast<double>(rounded) * scale);  // exact: a power of two, far from the limits
}

/// Digits that continue the number `m`; `count` is how many digits m has, leading zeros left out. Returns
/// nullptr when there are more than 19, the most that surely fit into 64 bits.
inline const char* more_digits(const char* p, std::uint64_t& m, unsigned& count) {
  for (;;) {
    const Digits digits = leading_digits(p);
    count = m == 0 ? digits.count : count + digits.count;
    if (count > 19) return nullptr;
    m = m * kPowersOfTen[digits.count] + digits.value;
    p += digits.count;
    if (digits.count < 8) return p;
  }
}

/// A whole number with an optional '-', of at most 19 digits, as T.
template <class T>
const char* integer_fast(const char* p, T& value) {
  const bool negative = *p == '-';
  p += negative ? 1 : 0;
  const char* const start = p;
  std::uint64_t m = 0;
  unsigned count = 0;
  p = more_digits(p, m, count);
  if (p == nullptr || p == start) return nullptr;
  if (m > 0x7fffffffffffffffu) return nullptr;
  const T magnitude = static_cast<T>(static_cast<std::int64_t>(m));
  value = negative ? -magnitude : magnitude;
  return p;
}

/// A decimal number with optional '-', point and exponent (e, E, d or D), as the nearest T.
template <class T>
const char* real_fast(const char* p, T& value) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
  const bool negative = *p == '-';
  p += negative ? 1 : 0;
  const char* const start = p;
  std::uint64_t m = 0;
  unsigned count = 0;
  p = more_digits(p, m, count);
  if (p == nullptr) return nullptr;
  std::ptrdiff_t digits_seen = p - start;
  int exponent = 0;
  if (*p == '.') {
    const char* const fraction = ++p;
    p = more_digits(p, m, count);
    if (p == nullptr) return nullptr;
    if (p - fraction > 1000) return nullptr;  // 0.000... : the exponent must stay small
    exponent = -static_cast<int>(p - fraction);
    digits_seen += p - fraction;
  }
  if (digits_seen == 0) return nullptr;
  const char letter = static_cast<char>(*p | 0x20);
  if (letter == 'e' || letter == 'd') {
    ++p;
    const bool below = *p == '-';
    if (*p == '-' || *p == '+') ++p;
    const Digits digits = leading_digits(p);
    if (digits.count == 0 || digits.count > 4) return nullptr;
    p += digits.count;
    exponent += below ? -static_cast<int>(digits.value) : static_cast<int>(digits.value);
  }

  T magnitude;
  if (m == 0) {
    magnitude = T{0};
  } else if (exponent <= 0) {
    if (exponent < -kLargestFifthPower) return nullptr;
    magnitude = divide_by_power_of_ten<T>(m, -exponent);
  } else {
    // Exact while both factors are: one rounding. (W. Clinger, "How to read floating point numbers
    // accurately", 1990.) Powers of ten up to 10^10 are floats, up to 10^19 they are also in the table.
    constexpr int kLargestExponent = std::is_same_v<T, float> ? 10 : 19;
    constexpr std::uint64_t kExactBelow = std::uint64_t{1} << (std::is_same_v<T, float> ? 24 : 53);
    if (exponent > kLargestExponent || m > kExactBelow) return nullptr;
    magnitude = static_cast<T>(m) * static_cast<T>(kPowersOfTen[static_cast<std::size_t>(exponent)]);
  }
  value = negative ? -magnitude : magnitude;
  return p;
}

}  // namespace stages::parse
