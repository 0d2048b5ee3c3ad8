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
#include <limits>
#include <type_traits>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace stages::parse {

__extension__ using Wide = unsigned __int128;

/// Everything here is inlined whatever its size: a call costs as much as the work.
#define STAGES_INLINE [[gnu::always_inline]] inline

STAGES_INLINE std::uint64_t load_word(const char* p) {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof word);
  if constexpr (std::endian::native == std::endian::big) {
    std::uint64_t swapped = 0;
    for (int i = 0; i < 8; ++i) swapped = swapped << 8 | ((word >> (8 * i)) & 0xff);
    word = swapped;
  }
  return word;
}

inline constexpr std::uint64_t kZeros = 0x3030303030303030u;  ///< eight times '0'

/// The top bit of every byte that is above 9. `word` is text with kZeros taken away by xor, so that digits
/// are 0..9: adding 0x76 sets the top bit of a larger byte that had none.
STAGES_INLINE std::uint64_t not_digits(std::uint64_t word) {
  return (((word & 0x7f7f7f7f7f7f7f7fu) + 0x7676767676767676u) | word) & 0x8080808080808080u;
}

/// The value of eight digits 0..9, the lowest byte first.
STAGES_INLINE std::uint64_t eight_digits(std::uint64_t word) {
  word = (word * 10 + (word >> 8)) & 0x00ff00ff00ff00ffu;    // four pairs
  word = (word * 100 + (word >> 16)) & 0x0000ffff0000ffffu;  // two fours
  return (word * 10000 + (word >> 32)) & 0xffffffffu;
}

/// The first `count` bytes of a word in its last places, behind zeros. 0 <= count <= 8; a shift by 64 is
/// undefined, so it is made of two.
STAGES_INLINE std::uint64_t keep_first(std::uint64_t word, std::size_t count) {
  return (word << (4 * (8 - count))) << (4 * (8 - count));
}

/// Up to eight digits at the start of a text: how many, and their value.
struct Digits {
  unsigned count;
  std::uint64_t value;
};

STAGES_INLINE Digits leading_digits(const char* p) {
  const std::uint64_t word = load_word(p) ^ kZeros;
  const std::uint64_t others = not_digits(word);
  const unsigned count = others == 0 ? 8u : static_cast<unsigned>(std::countr_zero(others)) / 8u;
  return {count, eight_digits(keep_first(word, count))};
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

/// 5^q, shifted so that its top bit is set, with what makes division by it multiplication: `reciprocal` is
/// 2^128 / normalised - 2^64, `inverse` is 2^127 / normalised, both rounded down (at most 2^64 - 1).
struct FifthPower {
  std::uint64_t normalised;
  std::uint64_t reciprocal;
  std::uint64_t inverse;
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
    const Wide inverse = (Wide{1} << 127) / p.normalised;
    p.inverse = inverse >> 64 != 0 ? ~std::uint64_t{0} : static_cast<std::uint64_t>(inverse);
    power *= 5;
  }
  return powers;
}();

/// kept * 2^exponent as T: `kept` < 2^63, so that the conversion is one from a signed integer, a single
/// instruction that rounds to nearest. The scaling is exact: a power of two, far from the limits.
template <class T>
STAGES_INLINE T rounded(std::uint64_t kept, int exponent) {
  const double scale = std::bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent) << 52);
  return static_cast<T>(static_cast<double>(static_cast<T>(static_cast<std::int64_t>(kept))) * scale);
}

/// m * 10^-q, rounded to nearest (ties to even). 0 < m, 0 <= q <= 27.
template <class T>
[[gnu::noinline]] T divide_exactly(std::uint64_t m, int q) {
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
  // What falls off the end survives as the sticky lowest bit.
  const std::uint64_t kept = quotient >> 1 | (quotient & 1) | (rest != 0 ? 1u : 0u);
  return rounded<T>(kept, halved - 63 + d.shift - m_shift - q);
}

/// The same by one multiplication, which gives the quotient's upper bits, too small by less than 3. That says
/// how to round unless the quotient is that close to a multiple of 2^9: halfway between two numbers of 53 or
/// of 24 bits is such a multiple. One in a hundred is, and is divided exactly.
template <class T>
STAGES_INLINE T divide_by_power_of_ten(std::uint64_t m, int q) {
  const FifthPower& d = kFifthPowers[static_cast<std::size_t>(q)];
  const int m_shift = std::countl_zero(m);
  const auto quotient = static_cast<std::uint64_t>((Wide{m << m_shift} * d.inverse) >> 64);
  if (((quotient + 4) & 0x1ff) <= 4) [[unlikely]]
    return divide_exactly<T>(m, q);
  return rounded<T>(quotient >> 1 | 1, 2 - 64 + d.shift - m_shift - q);
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

/// Every whole number up to this one is a T; of the larger ones only some are.
template <class T>
inline constexpr std::uint64_t kExactBelow = std::uint64_t{1} << std::numeric_limits<T>::digits;

/// A whole number with an optional '-', as T, where T surely holds it exactly.
template <class T>
const char* integer_fast(const char* p, T& value) {
  const bool negative = *p == '-';
  p += negative ? 1 : 0;
  const char* const start = p;
  std::uint64_t m = 0;
  unsigned count = 0;
  p = more_digits(p, m, count);
  if (p == nullptr || p == start) return nullptr;
  if (m > kExactBelow<T>) return nullptr;
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
    if (exponent > kLargestExponent || m > kExactBelow<T>) return nullptr;
    magnitude = static_cast<T>(m) * static_cast<T>(kPowersOfTen[static_cast<std::size_t>(exponent)]);
  }
  value = negative ? -magnitude : magnitude;
  return p;
}

// ------------------------------------------------------------------------------- words of known length
//
// Where a word ends is known beforehand (find_all, below), nothing has to be searched, and no word waits for
// the one before it: a processor then works on several lines at once. On an AMD EPYC of 2024 an entry `428520
// 822466 0.9710027535867962` takes 8 to 10 ns, finding its words included, against 19 to 25 ns by the
// functions above.

#if defined(__SSE2__)
/// Sixteen bytes, of which the mask keeps digits, to the values of either half (the first in the lower 32
/// bits). Clears `good` if what is kept is no digit.
STAGES_INLINE std::uint64_t two_eights(__m128i text, __m128i mask, bool& good) {
  __m128i v = _mm_and_si128(_mm_sub_epi8(text, _mm_set1_epi8('0')), mask);
  const __m128i nine = _mm_set1_epi8(9);
  good &= _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(v, nine), nine)) == 0xffff;
  // Pairs, fours, eights: what comes first counts ten (a hundred, ten thousand) times.
#if defined(__SSSE3__)
  v = _mm_maddubs_epi16(v, _mm_set1_epi16(1 << 8 | 10));
#else
  v = _mm_add_epi16(_mm_mullo_epi16(_mm_and_si128(v, _mm_set1_epi16(0xff)), _mm_set1_epi16(10)),
                    _mm_srli_epi16(v, 8));
#endif
  v = _mm_madd_epi16(v, _mm_set1_epi32(1 << 16 | 100));
  v = _mm_madd_epi16(_mm_packs_epi32(v, v), _mm_set1_epi32(1 << 16 | 10000));
  return static_cast<std::uint64_t>(_mm_cvtsi128_si64(v));
}

/// 16 zeros, then 16 ones: loaded `count` bytes after its start, it keeps the last `count` bytes of a
/// register.
alignas(32) inline constexpr auto kKeepLast = [] {
  std::array<std::uint8_t, 32> mask{};
  for (std::size_t k = 16; k < 32; ++k) mask[k] = 0xff;
  return mask;
}();
#endif

/// Two whole numbers of 1 to 8 digits each, in [p, p_end) and [q, q_end). False for anything else.
STAGES_INLINE bool two_unsigned(const char* p, const char* p_end, const char* q, const char* q_end,
                                std::uint64_t& first, std::uint64_t& second) {
  const auto p_count = static_cast<std::size_t>(p_end - p), q_count = static_cast<std::size_t>(q_end - q);
  if ((p_count - 1 > 7) | (q_count - 1 > 7)) return false;
#if defined(__SSE2__)
  const auto load = [](const void* from) { return _mm_loadl_epi64(static_cast<const __m128i*>(from)); };
  bool good = true;
  const std::uint64_t both = two_eights(
      _mm_unpacklo_epi64(load(p_end - 8), load(q_end - 8)),
      _mm_unpacklo_epi64(load(kKeepLast.data() + 8 + p_count), load(kKeepLast.data() + 8 + q_count)), good);
  first = both & 0xffffffffu;
  second = both >> 32;
  return good;
#else
  const std::uint64_t p_word = keep_first(load_word(p) ^ kZeros, p_count);
  const std::uint64_t q_word = keep_first(load_word(q) ^ kZeros, q_count);
  first = eight_digits(p_word);
  second = eight_digits(q_word);
  return (not_digits(p_word) | not_digits(q_word)) == 0;
#endif
}

/// The value of the last `count` digits before `end`, 0 <= count <= 16. Bytes before them do not matter.
/// Clears `good` if one of them is no digit.
STAGES_INLINE std::uint64_t last_digits(const char* end, std::size_t count, bool& good) {
#if defined(__SSE2__)
  const auto load = [](const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); };
  const std::uint64_t halves = two_eights(load(end - 16), load(kKeepLast.data() + count), good);
  return (halves & 0xffffffffu) * 100000000u + (halves >> 32);
#else
  const std::size_t low_count = count < 8 ? count : 8, high_count = count - low_count;
  const std::uint64_t low = keep_first(load_word(end - low_count) ^ kZeros, low_count);
  const std::uint64_t high = keep_first(load_word(end - count) ^ kZeros, high_count);
  good &= (not_digits(low) | not_digits(high)) == 0;
  return eight_digits(high) * 100000000u + eight_digits(low);
#endif
}

/// A number with optional '-' in [p, end), as the nearest T: without a branch for what is written with a
/// point after 0 to 7 digits and without an exponent, by real_fast otherwise. False where the careful path
/// must decide. 18 bytes before p may be loaded.
template <class T>
STAGES_INLINE bool real_between(const char* p, const char* end, T& value) {
  const bool negative = *p == '-';
  const char* const start = p + (negative ? 1 : 0);
  std::size_t whole = 1;
  std::uint64_t whole_value = static_cast<unsigned char>(*start - '0');
  bool good = whole_value <= 9;
  if (start[1] != '.') {  // not the commonest shape, d.ddd
    const std::uint64_t head = load_word(start) ^ kZeros;
    constexpr std::uint64_t kPoints = 0x1e1e1e1e1e1e1e1eu;  // '.' ^ '0'
    const std::uint64_t from_point = head ^ kPoints;
    // The lowest byte with its top bit set is the first that is zero: the point. (Higher ones may be wrong.)
    const std::uint64_t point = (from_point - 0x0101010101010101u) & ~from_point & 0x8080808080808080u;
    if (point == 0) return real_fast(p, value) == end;
    whole = static_cast<std::size_t>(std::countr_zero(point)) / 8;
    const std::uint64_t word = keep_first(head, whole);
    whole_value = eight_digits(word);
    good = not_digits(word) == 0;
  }
  const auto fraction = static_cast<std::size_t>(end - start - 1) - whole;
  if (fraction > 18 || whole + fraction - 1 > 18) return real_fast(p, value) == end;

  // The seventeenth and eighteenth digit from the end by masks: about half of all doubles have one, which is
  // the worst that a branch can meet.
  const std::size_t low_count = fraction - (fraction - 16) * static_cast<std::size_t>(fraction > 16);
  const unsigned tens =
      static_cast<unsigned char>(end[-18] - '0') & (0u - static_cast<unsigned>(fraction > 17));
  const unsigned ones =
      static_cast<unsigned char>(end[-17] - '0') & (0u - static_cast<unsigned>(fraction > 16));
  good &= (tens <= 9) & (ones <= 9);
  const std::uint64_t m = whole_value * kPowersOfTen[fraction] + (tens * 10 + ones) * kPowersOfTen[16] +
                          last_digits(end, low_count, good);
  if (!good) return real_fast(p, value) == end;
  const T magnitude = m == 0 ? T{0} : divide_by_power_of_ten<T>(m, static_cast<int>(fraction));
  value = negative ? -magnitude : magnitude;
  return true;
}

/// Which of 64 bytes satisfy a comparison, as bits.
enum class Find { blanks, line_ends };  // blanks: space and all control characters

template <Find what>
STAGES_INLINE std::uint64_t find_64(const char* p) {
  std::uint64_t bits = 0;
#if defined(__AVX512BW__)
  const __m512i bytes = _mm512_loadu_si512(p);
  const __m512i wanted = _mm512_set1_epi8(what == Find::blanks ? ' ' : '\n');
  bits = what == Find::blanks ? _mm512_cmple_epu8_mask(bytes, wanted) : _mm512_cmpeq_epi8_mask(bytes, wanted);
#elif defined(__SSE2__)
  const __m128i wanted = _mm_set1_epi8(what == Find::blanks ? ' ' : '\n');
  for (int k = 0; k < 4; ++k) {
    __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p) + k);
    if constexpr (what == Find::blanks) bytes = _mm_max_epu8(bytes, wanted);
    const int found = _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, wanted));
    bits |= static_cast<std::uint64_t>(static_cast<std::uint32_t>(found)) << (16 * k);
  }
#else
  for (int k = 0; k < 64; ++k) {
    const auto byte = static_cast<unsigned char>(p[k]);
    bits |= static_cast<std::uint64_t>(what == Find::blanks ? byte <= ' ' : byte == '\n') << k;
  }
#endif
  return bits;
}

/// Writes positions in [begin, end) as offsets from `begin` and returns how many there are: of line ends, or
/// (for blanks) of those blanks that follow a byte that is none, which is where words end. `out` must have
/// room for (end - begin) + 64 offsets; 64 bytes beyond `end` may be loaded.
template <Find what>
std::size_t find_all(const char* begin, const char* end, std::uint32_t* const first) {
  constexpr int kBurst = what == Find::blanks ? 8 : 4;
  std::uint32_t* out = first;
  std::uint64_t blank_before = 1;
  for (const char* p = begin; p < end; p += 64) {
    std::uint64_t bits = find_64<what>(p);
    if constexpr (what == Find::blanks) {
      const std::uint64_t blank = bits;
      bits &= ~(blank << 1 | blank_before);
      blank_before = blank >> 63;
    }
    if (end - p < 64) bits &= (std::uint64_t{1} << (end - p)) - 1;
    const auto offset = static_cast<std::uint32_t>(p - begin);
    std::uint32_t* const next = out + std::popcount(bits);
    // Several at a time, whether they exist or not: how many there are in 64 bytes cannot be predicted.
    do {
      for (int k = 0; k < kBurst; ++k) {
        out[k] = offset + static_cast<std::uint32_t>(std::countr_zero(bits));
        bits &= bits - 1;
      }
      out += kBurst;
    } while (bits != 0);
    out = next;
  }
  return static_cast<std::size_t>(out - first);
}

#undef STAGES_INLINE

}  // namespace stages::parse
