// Matrix Market, read in two passes. The first checks every index and counts each row's entries; the second
// reads the values too and puts each entry straight into its place in the final arrays. Nothing else that
// grows with the matrix is ever held, so peak memory is hardly more than the result, where a list of triplets
// that is then sorted needs three times as much. Reading twice costs less than it seems: the first pass skips
// the values, which take most of the time, and the second finds the file in the page cache.
//
// Both passes share the same loop. Each line goes through a fast path (parse_number.hpp) that takes the usual
// shape of an entry, and everything unusual (a comment, a blank line, nan, 25 digits, nonsense) through a
// careful one, which alone decides what is wrong.

#include "common/matrix/matrix_market.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <string_view>
#include <vector>

#include "common/matrix/convert.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/memory.hpp"
#include "common/matrix/parse_number.hpp"
#include "common/matrix/row_placer.hpp"
#include "common/matrix/text_lines.hpp"

namespace stages {
namespace {

using Format = MatrixMarketHeader::Format;
using Field = MatrixMarketHeader::Field;
using Symmetry = MatrixMarketHeader::Symmetry;

std::size_t at(Offset k) {
  return static_cast<std::size_t>(k);
}

// -------------------------------------------------------------------------- numbers, the careful path

enum class Parsed { good, malformed, too_large };

std::string_view without_plus(std::string_view text) {
  const bool sign_alone = text.size() >= 2 && text[0] == '+' && text[1] != '-' && text[1] != '+';
  return sign_alone ? text.substr(1) : text;
}

template <class Integer>
Parsed parse_integer(std::string_view text, Integer& value) {
  text = without_plus(text);
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || stop != text.data() + text.size()) return Parsed::malformed;
  return error == std::errc() ? Parsed::good : Parsed::too_large;
}

/// Whether a decimal number that lies outside the range of its type is too large, rather than too small.
bool is_too_large(std::string_view number) {
  const std::size_t letter = std::min(number.find('e'), number.size());
  const std::string_view mantissa = number.substr(0, letter);
  const std::size_t point = std::min(mantissa.find('.'), mantissa.size());
  const std::size_t first = mantissa.find_first_of("123456789");
  if (letter + 1 < number.size()) {
    // An exponent that itself does not fit has the last word.
    std::int64_t exponent = 0;
    if (parse_integer(number.substr(letter + 1), exponent) != Parsed::good) return number[letter + 1] != '-';
    return exponent + static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first) > 0;
  }
  return first < point;
}

template <class T>
Parsed parse_real(std::string_view text, T& value) {
  std::string number(without_plus(text));
  for (char& c : number) {
    if (c == 'd' || c == 'D' || c == 'E') c = 'e';  // Fortran's exponents; no spelling of nan or inf has a d
  }
  const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error == std::errc::invalid_argument || stop != number.data() + number.size()) return Parsed::malformed;
  if (error == std::errc()) return Parsed::good;
  if (is_too_large(number)) return Parsed::too_large;
  value = number.front() == '-' ? -T{0} : T{0};
  return Parsed::good;
}

__extension__ using Int128 = __int128;

/// `exact` becomes false where T does not hold the number.
template <class T>
Parsed parse_whole(std::string_view text, T& value, bool& exact) {
  const auto take = [&](auto whole) {
    const Parsed parsed = parse_integer(text, whole);
    value = static_cast<T>(whole);
    exact = static_cast<Int128>(value) == whole;
    return parsed;
  };
  const Parsed parsed = take(std::int64_t{});
  if (parsed != Parsed::too_large) return parsed;
  return take(std::uint64_t{}) == Parsed::good ? Parsed::good : Parsed::too_large;
}

// ---------------------------------------------------------------------------------------------- header

struct Header : MatrixMarketHeader {
  Offset size_line = 0;

  bool operator==(const Header& other) const {
    return format == other.format && field == other.field && symmetry == other.symmetry &&
           rows == other.rows && cols == other.cols && stored == other.stored;
  }
  bool mirrored() const { return symmetry != Symmetry::general; }
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

constexpr const char* kBannerRule =
    "line 1 must be '%%MatrixMarket matrix coordinate|array real|integer|pattern "
    "general|symmetric|skew-symmetric'";

void parse_qualifiers(const std::string& name, const Words& words, Header& header) {
  const std::string object = lower(words.word[1]), format = lower(words.word[2]);
  const std::string field = lower(words.word[3]), symmetry = lower(words.word[4]);

  if (object != "matrix") {
    fail_at(name, 1, "the object {} is not read; write it as a 'matrix' (a vector as one of n x 1)",
            quoted(words.word[1]));
  }
  if (format != "coordinate" && format != "array") {
    fail_at(name, 1, "unknown format {}; it must be 'coordinate' or 'array'", quoted(words.word[2]));
  }
  header.format = format == "array" ? Format::array : Format::coordinate;

  const bool hermitian = symmetry == "hermitian";
  if (field == "complex") {
    fail_at(name, 1,
            "complex{} matrices are not read, only those of real numbers; write the real and the imaginary "
            "part to files of "
            "their own, as by scipy.io: mmwrite('real.mtx', mmread('{}').real)",
            hermitian ? " hermitian" : "", name);
  }
  if (hermitian) fail_at(name, 1, "'hermitian' matrices are not read; write a real one as 'symmetric'");
  // scipy writes 'unsigned-integer' for its unsigned types.
  if (field != "real" && field != "integer" && field != "unsigned-integer" && field != "pattern") {
    fail_at(name, 1, "unknown field {}; it must be 'real', 'integer' or 'pattern'", quoted(words.word[3]));
  }
  header.field = field == "real" ? Field::real : field == "pattern" ? Field::pattern : Field::integer;

  if (symmetry != "general" && symmetry != "symmetric" && symmetry != "skew-symmetric") {
    fail_at(name, 1, "unknown symmetry {}; it must be 'general', 'symmetric' or 'skew-symmetric'",
            quoted(words.word[4]));
  }
  header.symmetry = symmetry == "general"     ? Symmetry::general
                    : symmetry == "symmetric" ? Symmetry::symmetric
                                              : Symmetry::skew_symmetric;

  if (header.field == Field::pattern && header.format == Format::array) {
    fail_at(name, 1, "'array' with 'pattern' has no values to read; write it as 'coordinate pattern'");
  }
  if (header.field == Field::pattern && header.symmetry == Symmetry::skew_symmetric) {
    fail_at(name, 1, "'pattern' with 'skew-symmetric' leaves the signs open; write the values");
  }
}

/// Editors and shells of Windows write text with a mark in front, or in two bytes a character.
void refuse_encodings(const std::string& name, std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf"))
    fail_at(name, 1,
            "the text begins with a byte-order mark (of UTF-8); remove these 3 bytes, as by `tail -c +4`");
  const bool wide = text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff") ||
                    text.substr(0, 2).find('\0') != std::string_view::npos;
  if (wide) fail_at(name, 1, "the text is in UTF-16 or UTF-32; convert it, as by `iconv -f UTF-16 -t ASCII`");
}

void parse_banner(Lines& lines, Header& header) {
  std::string_view text;
  if (!lines.next(text)) fail_at(lines.name(), 1, "the file is empty; {}", kBannerRule);
  refuse_encodings(lines.name(), text);
  const std::size_t bare_return = text.find('\r');
  if (bare_return != std::string_view::npos &&
      text.find_first_not_of('\r', bare_return) != std::string_view::npos) {
    fail_at(lines.name(), 1, "lines end in a bare carriage return; convert them, as with `tr '\\r' '\\n'`");
  }
  const Words words(text);
  const std::string banner = words.count > 0 ? lower(words.word[0]) : std::string();
  if (banner != "%%matrixmarket" && banner != "%matrixmarket") {
    fail_at(lines.name(), 1, "no Matrix Market banner; {}", kBannerRule);
  }
  if (words.count != 5) {
    fail_at(lines.name(), 1, "the banner has {} words instead of 5; {}", words.count, kBannerRule);
  }
  parse_qualifiers(lines.name(), words, header);
}

Offset parse_size(const Lines& lines, std::string_view text, const char* what, Offset most) {
  Offset value = 0;
  const Parsed parsed = parse_integer(text, value);
  if (parsed == Parsed::malformed || (parsed == Parsed::good && value < 0)) {
    fail_at(lines.name(), lines.line(), "the number of {} is {}; it must be a whole number, 0 or more", what,
            quoted(text));
  }
  if (parsed == Parsed::too_large || value > most) {
    fail_at(lines.name(), lines.line(), "the number of {} is {}, above the largest, {}; split the matrix",
            what, quoted(text), most);
  }
  return value;
}

/// How many values an array file holds.
Offset array_values(const Header& h) {
  const Offset n = h.rows;
  switch (h.symmetry) {
    case Symmetry::symmetric:
      return n * (n + 1) / 2;
    case Symmetry::skew_symmetric:
      return n == 0 ? 0 : n * (n - 1) / 2;
    case Symmetry::general:
      break;
  }
  return n * h.cols;
}

/// Throws Error where a packed file is mostly comments and blanks: with them kilobytes become hours of
/// reading. What is not packed is read in proportion to its size whatever it holds.
void require_entries(const Lines& lines, Offset bytes, Offset entries) {
  constexpr Offset kFreely = Offset{64} << 20, kLongestEntry = 1024;  // the format's longest line
  if (lines.source_size() >= 0 || bytes <= kFreely || bytes / kLongestEntry <= entries) return;
  fail_at(lines.name(), lines.line() + 1,
          "{} MB of this compressed text hold too few entries, {}; unpack it, and remove comments and blanks",
          bytes >> 20, entries);
}

void parse_size_line(Lines& lines, Header& header) {
  const bool coordinate = header.format == Format::coordinate;
  const char* const shape = coordinate ? "rows columns entries" : "rows columns";
  std::string_view text;
  Offset bytes = 0;
  do {
    if (!lines.next(text)) {
      fail_at(lines.name(), lines.line() + 1, "the file ends before its size line; add `{}`", shape);
    }
    bytes += std::ssize(text) + 1;
    require_entries(lines, bytes, 0);
  } while (is_blank_or_comment(text));

  const Words words(text);
  if (words.count != (coordinate ? 3u : 2u)) {
    fail_at(lines.name(), lines.line(), "the size line has {} numbers; it must be `{}`", words.count, shape);
  }
  constexpr Offset kMostLines = std::numeric_limits<Index>::max();
  header.rows = static_cast<Index>(parse_size(lines, words.word[0], "rows", kMostLines));
  header.cols = static_cast<Index>(parse_size(lines, words.word[1], "columns", kMostLines));
  if (header.mirrored() && header.rows != header.cols) {
    fail_at(lines.name(), lines.line(),
            "the matrix is {} x {}, but a symmetric one is square; correct the sizes or the banner",
            header.rows, header.cols);
  }
  header.stored = coordinate
                      ? parse_size(lines, words.word[2], "entries", std::numeric_limits<Offset>::max() / 64)
                      : array_values(header);
  header.size_line = lines.line();
}

Header parse_header(Lines& lines) {
  Header header;
  parse_banner(lines, header);
  parse_size_line(lines, header);

  // A size line can claim anything; where the number of bytes is known, most lies are seen at once.
  const Offset shortest = header.format == Format::array ? 2 : header.field == Field::pattern ? 4 : 6;
  if (lines.source_size() >= 0 && header.stored > lines.source_size() / shortest + 1) {
    fail_at(
        lines.name(), header.size_line,
        "{} entries are declared, but the file has only {} bytes; it is truncated, or the sizes are wrong",
        header.stored, lines.source_size());
  }
  return header;
}

// ---------------------------------------------------------------------------------------------- memory

/// Throws Error unless `bytes` more can be allocated. Asked before every large allocation: Linux promises
/// memory that it does not have, and ends the program when it is used.
void require_memory(const Lines& lines, const Header& header, const ReadOptions& options, double bytes) {
  constexpr double kNotWorthAsking = 64e6;
  if (options.max_bytes == 0 && bytes < kNotWorthAsking) return;
  const Offset most = options.max_bytes > 0 ? options.max_bytes : available_memory();
  if (bytes > static_cast<double>(most)) {
    fail_at(lines.name(), header.size_line,
            "the {} x {} matrix takes {:.2f} GB, but only {:.2f} GB may be used; use a smaller matrix or a "
            "larger machine",
            header.rows, header.cols, bytes / 1e9, static_cast<double>(most) / 1e9);
  }
}

/// Runs `action`; where memory runs out all the same (a limit set by ulimit, for example) that is an Error.
template <class Action>
auto with_memory(const std::string& name, Action action) {
  try {
    return action();
  } catch (const std::bad_alloc&) {
    fail_at(name, 1, "the matrix does not fit into memory; use a smaller one or a larger machine");
  } catch (const std::length_error&) {
    fail_at(name, 1, "the matrix does not fit into memory; use a smaller one or a larger machine");
  }
}

// ---------------------------------------------------------------------------------- entries, one a line

template <class T>
struct Entry {
  std::uint64_t row = 0;  ///< as written, before the index base is taken away; negative ones wrap
  std::uint64_t col = 0;
  T value = T{1};
};

const char* skip_blanks(const char* p) {
  while (*p == ' ' || *p == '\t') ++p;
  return p;
}

/// Past the end of the line if nothing but blanks is left of it, else nullptr.
const char* end_of_line(const char* p) {
  if (*p == '\n') return p + 1;
  while (*p == ' ' || *p == '\t' || *p == '\r') ++p;
  return *p == '\n' ? p + 1 : nullptr;
}

template <Field field, class T>
const char* value_fast(const char* p, T& value) {
  if constexpr (field == Field::integer) return parse::integer_fast(p, value);
  return parse::real_fast(p, value);
}

/// How much of each entry a pass looks at; the last pass looks at everything.
enum class Depth { row, indices, values };

/// The usual entry line: returns the start of the next line, or nullptr for the careful path to decide.
/// A value that the pass does not look at is skipped unseen.
template <Field field, Depth depth, class T>
const char* entry_fast(const char* p, const char* end, Entry<T>& entry) {
  p = parse::unsigned_fast(skip_blanks(p), entry.row);
  if (p == nullptr || (*p != ' ' && *p != '\t')) return nullptr;
  p = parse::unsigned_fast(skip_blanks(p + 1), entry.col);
  if (p == nullptr) return nullptr;
  if constexpr (field == Field::pattern) return end_of_line(p);
  if (*p != ' ' && *p != '\t') return nullptr;
  if constexpr (depth == Depth::values) {
    p = value_fast<field>(skip_blanks(p + 1), entry.value);
    return p == nullptr ? nullptr : end_of_line(p);
  }
  return static_cast<const char*>(std::memchr(p, '\n', static_cast<std::size_t>(end - p))) + 1;
}

/// What is searched for beforehand, and how many of them make an entry.
template <Depth depth>
inline constexpr parse::Find marks = depth == Depth::row ? parse::Find::line_ends : parse::Find::blanks;
template <Field field, Depth depth>
inline constexpr std::size_t marks_per_entry = depth == Depth::row       ? 1
                                               : field == Field::pattern ? 2
                                                                         : 3;

/// The same for the commonest shape, one blank between words and none elsewhere, where the ends of its words
/// (or of the line, where only the row is looked at) are known, as offsets from `start`.
template <Field field, Depth depth, class T>
[[gnu::always_inline]] inline const char* entry_between(const char* p, const char* start,
                                                        const std::uint32_t* ends, Entry<T>& entry,
                                                        std::uint64_t index_base) {
  if constexpr (depth == Depth::row) {
    const parse::Digits row = parse::leading_digits(p);
    if (row.count - 1 > 6 || p[row.count] != ' ') return nullptr;
    entry.row = row.value;
    entry.col = index_base;
    return start + ends[0] + 1;
  } else {
    const char* const row_end = start + ends[0];
    const char* const col_end = start + ends[1];
    const char* const last = start + ends[marks_per_entry<field, depth> - 1];
    const bool good =
        parse::two_unsigned(p, row_end, row_end + 1, col_end, entry.row, entry.col) & (*row_end == ' ');
    if (!good) return nullptr;
    if constexpr (field != Field::pattern) {
      if (*col_end != ' ') return nullptr;
      const char* const value = col_end + 1;
      if constexpr (depth == Depth::values && field == Field::real) {
        if (!parse::real_between(value, last, entry.value)) return nullptr;
      }
      if constexpr (depth == Depth::values && field == Field::integer) {
        if (parse::integer_fast(value, entry.value) != last) return nullptr;
      }
    }
    return end_of_line(last);
  }
}

/// The careful path, and the rules that both paths share.
class EntryReader {
 public:
  EntryReader(Lines& lines, const Header& header, const ReadOptions& options)
      : lines_(lines), header_(header), options_(options) {}

  Offset dropped = 0;
  Offset non_finite = 0;
  Offset rounded = 0;

  /// Calls visit(line, row, col, value) for every entry, 0-based, as stored. Throws Error unless the number
  /// of entries is the declared one.
  template <Field field, Depth depth, class T, class Visit>
  void coordinates(Visit visit) {
    constexpr std::size_t kMarks = marks_per_entry<field, depth>;
    const auto base = static_cast<std::uint64_t>(options_.index_base);
    const auto rows = static_cast<std::uint64_t>(header_.rows);
    const auto cols = static_cast<std::uint64_t>(header_.cols);
    Offset entries = 0;
    Entry<T> entry;
    const auto accept = [&](Offset line) {
      if (++entries > header_.stored) too_many(line);
      const std::uint64_t row = entry.row - base, col = entry.col - base;
      if (row >= rows || col >= cols) {
        if (!options_.drop_out_of_range) out_of_range(line, entry.row, entry.col);
        ++dropped;
        return;
      }
      visit(line, static_cast<Index>(row), static_cast<Index>(col), entry.value);
    };
    const auto take_line = [&](Offset line, const char* p, const char* end) {
      const char* next = entry_fast<field, depth>(p, end, entry);
      if (next != nullptr) {
        accept(line);
        return next;
      }
      next = static_cast<const char*>(std::memchr(p, '\n', static_cast<std::size_t>(end - p))) + 1;
      if (entry_carefully(line, {p, static_cast<std::size_t>(next - 1 - p)}, entry)) accept(line);
      return next;
    };
    for_each_block(entries, [&](Offset& line, const char* p, const char* end) {
      while (p != end) {
        const char* const start = p;
        const std::size_t count =
            parse::find_all<marks<depth>>(p, std::min(end, p + kIndexed), marks_.data());
        for (std::size_t k = 0; k + kMarks <= count;) {
          const char* next = entry_between<field, depth>(p, start, marks_.data() + k, entry, base);
          if (next != nullptr) {
            accept(++line);
            k += kMarks;
          } else {
            next = take_line(++line, p, end);
            while (k < count && start + marks_[k] < next) ++k;
          }
          p = next;
        }
        if (p == start) p = take_line(++line, p, end);
      }
    });
    if (entries != header_.stored) too_few(entries);
  }

  /// Calls visit(i, j, value) for every value of an array file, column by column, as stored.
  template <class T, class Visit>
  void array(Visit visit) {
    const bool skew = header_.symmetry == Symmetry::skew_symmetric;
    const Index below = skew ? 1 : 0;
    Offset values = 0;
    Index i = below, j = 0;
    const auto take_line = [&](Offset line, const char* p, const char* end) {
      T value{};
      const char* next = header_.field == Field::integer ? value_fast<Field::integer>(skip_blanks(p), value)
                                                         : value_fast<Field::real>(skip_blanks(p), value);
      if (next != nullptr) next = end_of_line(next);
      if (next == nullptr) {
        next = static_cast<const char*>(std::memchr(p, '\n', static_cast<std::size_t>(end - p))) + 1;
        if (!value_carefully(line, {p, static_cast<std::size_t>(next - 1 - p)}, value)) return next;
      }
      if (++values > header_.stored) too_many(line);
      visit(i, j, value);
      if (++i == header_.rows) {
        ++j;
        i = header_.mirrored() ? j + below : 0;
      }
      return next;
    };
    for_each_block(values, [&](Offset& line, const char* p, const char* end) {
      while (p != end) p = take_line(++line, p, end);
    });
    if (values != header_.stored) too_few(values);
  }

 private:
  /// Calls take(line number, begin, end) for each block of lines; it advances the number by one for each, and
  /// `entries` by those that it finds.
  template <class Take>
  void for_each_block(const Offset& entries, Take take) {
    Offset bytes = 0;
    for (;;) {
      const auto [begin, end] = lines_.block();
      if (begin == end) return;
      bytes += end - begin;
      require_entries(lines_, bytes, entries);
      const Offset before = lines_.line();
      Offset line = before;
      take(line, begin, end);
      lines_.took_block(line - before);
    }
  }

  /// False where the line holds no entry.
  template <class T>
  bool entry_carefully(Offset line, std::string_view text, Entry<T>& entry) {
    if (is_blank_or_comment(text)) return false;
    const Words words(text);
    const bool pattern = header_.field == Field::pattern;
    if (words.count != (pattern ? 2u : 3u)) {
      fail_at(lines_.name(), line, "{} is not of the form `{}`; write each entry on a line of its own",
              quoted(text), pattern ? "row column" : "row column value");
    }
    entry.row = index(line, words.word[0], "row");
    entry.col = index(line, words.word[1], "column");
    entry.value = pattern ? T{1} : value<T>(line, words.word[2]);
    return true;
  }

  template <class T>
  bool value_carefully(Offset line, std::string_view text, T& result) {
    if (is_blank_or_comment(text)) return false;
    const Words words(text);
    if (words.count != 1) {
      fail_at(lines_.name(), line, "{} is not one value; write each value on a line of its own",
              quoted(text));
    }
    result = value<T>(line, words.word[0]);
    return true;
  }

  std::uint64_t index(Offset line, std::string_view text, const char* what) const {
    std::int64_t number = 0;
    const Parsed parsed = parse_integer(text, number);
    if (parsed == Parsed::malformed) {
      fail_at(lines_.name(), line, "the {} {} is not a whole number; correct the line", what, quoted(text));
    }
    if (parsed == Parsed::too_large) {
      fail_at(lines_.name(), line, "the {} {} does not fit into 64 bits; correct the line", what,
              quoted(text));
    }
    return static_cast<std::uint64_t>(number);
  }

  template <class T>
  T value(Offset line, std::string_view text) {
    T number{};
    const bool whole = header_.field == Field::integer;
    bool exact = true;
    const Parsed parsed = whole ? parse_whole(text, number, exact) : parse_real(text, number);
    if (parsed == Parsed::malformed) {
      fail_at(lines_.name(), line, "the value {} is not {}; correct the line{}", quoted(text),
              whole ? "a whole number" : "a number", whole ? ", or say 'real' in line 1" : "");
    }
    if (parsed == Parsed::too_large) {
      const char* const type = whole                        ? "64 bits"
                               : sizeof(T) == sizeof(float) ? "a 32-bit float"
                                                            : "a 64-bit float";
      fail_at(lines_.name(), line, "the value {} does not fit into {}; {}", quoted(text), type,
              !whole && sizeof(T) == sizeof(float) ? "read it as 64-bit floats, or scale the matrix"
                                                   : "scale the matrix");
    }
    if (!std::isfinite(number)) {
      if (!options_.allow_non_finite) {
        fail_at(lines_.name(), line, "the value {} is not finite; correct the line", quoted(text));
      }
      ++non_finite;
    }
    rounded += exact ? 0 : 1;
    return number;
  }

  [[noreturn]] void out_of_range(Offset line, std::uint64_t row, std::uint64_t col) const {
    const Offset base = options_.index_base;
    const bool from_zero = base == 1 && (row == 0 || col == 0);
    fail_at(lines_.name(), line,
            "the entry at row {}, column {} lies outside rows {}..{}, columns {}..{}; correct it or the size "
            "line{}",
            static_cast<std::int64_t>(row), static_cast<std::int64_t>(col), base, header_.rows - 1 + base,
            base, header_.cols - 1 + base,
            from_zero ? ", or read a file that counts from 0 with --index-base 0" : "");
  }

  [[noreturn]] void too_many(Offset line) const {
    fail_at(lines_.name(), line,
            "more than the {} entries declared in line {}; correct that line or remove the rest",
            header_.stored, header_.size_line);
  }

  [[noreturn]] void too_few(Offset found) const {
    fail_at(lines_.name(), std::max<Offset>(lines_.line(), 1),
            "the file ends after {} of the {} entries declared in line {}; it is truncated, or that line is "
            "wrong",
            found, header_.stored, header_.size_line);
  }

  /// Bytes of text whose words are found at a time: text and positions stay in the first-level cache.
  static constexpr std::ptrdiff_t kIndexed = 1 << 13;

  Lines& lines_;
  const Header& header_;
  const ReadOptions& options_;
  Buffer<std::uint32_t> marks_ = Buffer<std::uint32_t>(kIndexed + 64);
};

// ------------------------------------------------------------------------------------- the two passes

/// Reads one file: the header, then as many passes over its entries as are asked for.
template <class T>
class Reader {
 public:
  Reader(ByteSource& source, const std::string& name, const ReadOptions& options)
      : options_(options), lines_(source, name) {
    if (options.index_base != 0 && options.index_base != 1) {
      fail("index base {}: rows and columns can be counted from 0 or from 1", options.index_base);
    }
    header_ = parse_header(lines_);
    report_.header = header_;
  }

  Csr<T> csr() {
    return with_memory(lines_.name(), [&] {
      return header_.format == Format::array ? csr_of_array() : csr_of_coordinates();
    });
  }

  Dense<T> dense(Layout layout) {
    return with_memory(lines_.name(), [&] {
      if (header_.format == Format::array) return dense_of_array(layout);
      const Csr<T> sparse = csr_of_coordinates();
      require_dense_memory();
      return to_dense(sparse, layout);
    });
  }

  const ReadReport& report() const { return report_; }

 private:
  /// One pass over the entries, from the start of the file. The header is read again: that is what brings the
  /// lines to the first entry.
  template <Depth depth, class Visit>
  void pass(Visit visit) {
    lines_.rewind();
    if (!(parse_header(lines_) == header_)) changed();
    EntryReader entries(lines_, header_, options_);
    if (header_.format == Format::array) {
      entries.template array<T>([&](Index i, Index j, T value) { visit(Offset{0}, i, j, value); });
    } else if (header_.field == Field::real) {
      entries.template coordinates<Field::real, depth, T>(visit);
    } else if (header_.field == Field::integer) {
      entries.template coordinates<Field::integer, depth, T>(visit);
    } else {
      entries.template coordinates<Field::pattern, depth, T>(visit);
    }
    report_.dropped = entries.dropped;
    report_.non_finite = entries.non_finite;
    report_.rounded = entries.rounded;
  }

  [[noreturn]] void changed() const {
    fail_at(lines_.name(), 1, "the file was changed while it was being read; wait until it is complete");
  }

  double row_bytes() const { return (header_.rows + 1.0) * sizeof(Offset); }
  /// The row pointers, before they are taken.
  void require_row_memory() const { require_memory(lines_, header_, options_, row_bytes()); }
  /// The entries, when the row pointers have been taken; a limit of the caller's is for both.
  void require_entry_memory(Offset nnz) const {
    const double entries = static_cast<double>(nnz) * (sizeof(Index) + sizeof(T));
    require_memory(lines_, header_, options_, entries + (options_.max_bytes > 0 ? row_bytes() : 0));
  }
  void require_dense_memory() const {
    const double rows = header_.rows, cols = header_.cols;
    require_memory(lines_, header_, options_, rows * cols * sizeof(T));
  }

  /// A size line may name two thousand million rows for a handful of entries. A matrix of 100 million is one
  /// that somebody may want; far beyond, it is a mistake or worse. Before memory is taken for such rows, the
  /// entries are seen to be in order; where rows abound, they are few, so this pass costs little.
  void check_before_many_rows() {
    constexpr Index kMany = 1 << 20;
    // Of compressed text no length is known: an entry that takes less than a byte is not believed either.
    const Offset believed = std::min(header_.stored, lines_.packed_size());
    if (header_.rows <= kMany || header_.rows / 8 <= believed) return;
    pass<Depth::values>([](auto&&...) {});
    if (options_.max_bytes == 0 && row_bytes() > kMostForEmptyLines) {
      fail_at(lines_.name(), header_.size_line,
              "{} rows for {} entries take {:.2f} GB, and the limit is {:.2f} GB where most rows are empty; "
              "leave out rows without entries",
              header_.rows, header_.stored, row_bytes() / 1e9, kMostForEmptyLines / 1e9);
    }
  }

  Csr<T> csr_of_coordinates() {
    check_before_many_rows();
    require_row_memory();
    Csr<T> out(header_.rows, header_.cols);
    bool below = false, above = false;
    RowCounter counter(out.row_ptr);
    if (!header_.mirrored() && !options_.drop_out_of_range) {
      pass<Depth::row>([&](Offset, Index row, Index, T) { counter.add(row); });
    } else {
      pass<Depth::indices>([&](Offset line, Index row, Index col, T) {
        counter.add(row);
        if (!header_.mirrored()) return;
        if (row == col) {
          if (header_.symmetry == Symmetry::skew_symmetric) diagonal_of_skew(line, row);
          return;
        }
        counter.add(col);
        (row > col ? below : above) = true;
      });
    }
    counter.flush();
    const std::optional<std::pair<Index, Index>> repeat = place(out);
    if (below && above && repeat) both_triangles(*repeat);
    return out;
  }

  Csr<T> csr_of_array() {
    check_before_many_rows();
    require_row_memory();
    Csr<T> out(header_.rows, header_.cols);
    pass<Depth::values>([&](Offset, Index row, Index col, T value) {
      if (value == T{0}) return;
      ++out.row_ptr[at(row) + 1];
      if (header_.mirrored() && row != col) ++out.row_ptr[at(col) + 1];
    });
    place(out);
    return out;
  }

  /// The second pass, after row_ptr was filled with counts. Returns where the first repeated entry stands.
  std::optional<std::pair<Index, Index>> place(Csr<T>& out) {
    const Offset nnz = counts_to_starts(out.row_ptr);
    require_entry_memory(nnz);
    out.col_idx.resize(at(nnz));
    out.values.resize(at(nnz));
    RowPlacer<T> placer(out);
    const bool skip_zeros = header_.format == Format::array;
    pass<Depth::values>([&](Offset, Index row, Index col, T value) {
      if (skip_zeros && value == T{0}) return;
      placer.add(row, col, value);
      if (header_.mirrored() && row != col) {
        placer.add(col, row, header_.symmetry == Symmetry::symmetric ? value : -value);
      }
    });
    if (!placer.finish()) changed();
    if (placer.first_overflow && !options_.allow_non_finite) sum_overflows(*placer.first_overflow);
    lines_.rewind();  // which sees whether the file is still the same
    report_.repeated = nnz - out.nnz();
    return placer.first_repeat;
  }

  Dense<T> dense_of_array(Layout layout) {
    require_dense_memory();
    pass<Depth::values>([](auto&&...) {});  // checks the number of values before memory is taken for them
    Dense<T> out(header_.rows, header_.cols, layout);
    if (header_.symmetry == Symmetry::skew_symmetric) std::fill(out.data.begin(), out.data.end(), T{0});
    pass<Depth::values>([&](Offset, Index i, Index j, T value) {
      out(i, j) = value;
      if (header_.mirrored() && i != j) out(j, i) = header_.symmetry == Symmetry::symmetric ? value : -value;
    });
    return out;
  }

  [[noreturn]] void diagonal_of_skew(Offset line, Index row) const {
    fail_at(lines_.name(), line,
            "a skew-symmetric matrix has a zero diagonal, which is not stored; remove the entry at row {}",
            row + options_.index_base);
  }

  /// Repeated entries whose sum is no number any more. Looks for the line of the last of them.
  [[noreturn]] void sum_overflows(std::pair<Index, Index> place) {
    const Index i = place.first, j = place.second;
    Offset last = 0;
    pass<Depth::indices>([&](Offset line, Index row, Index col, T) {
      if ((row == i && col == j) || (header_.mirrored() && row == j && col == i)) last = line;
    });
    if (last == 0) changed();
    fail_at(lines_.name(), last,
            "the entries at row {}, column {} add up to more than a {}-bit float holds; keep one of them, or "
            "scale the matrix",
            i + options_.index_base, j + options_.index_base, 8 * sizeof(T));
  }

  /// A file that stores both triangles of a symmetric matrix would come out doubled. Looks for the line.
  [[noreturn]] void both_triangles(std::pair<Index, Index> place) {
    const Index i = place.first, j = place.second;
    bool seen = false;
    pass<Depth::indices>([&](Offset line, Index row, Index col, T) {
      if (!((row == i && col == j) || (row == j && col == i))) return;
      if (seen) {
        fail_at(lines_.name(), line,
                "the entry at row {}, column {} comes twice in a symmetric file that stores both triangles; "
                "keep one of them, or say 'general' in line 1",
                row + options_.index_base, col + options_.index_base);
      }
      seen = true;
    });
    changed();
  }

  ReadOptions options_;
  Lines lines_;
  Header header_;
  ReadReport report_;
};

std::unique_ptr<ByteSource> open_matrix(const std::string& path) {
  try {
    return unpacked(open_file(path));
  } catch (const Error& error) {
    fail("{}: {}", path, error.what());
  }
}

// ---------------------------------------------------------------------------------------------- writing

/// Collects lines and hands them on in large pieces.
class LineWriter {
 public:
  explicit LineWriter(const std::string& path) : file_(path) { text_.reserve(kPiece + kLongest); }

  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    end_line();
  }
  void integer(Index value) {
    std::array<char, kLongest> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    text_.append(digits.data(), end);
    text_ += ' ';
  }
  /// The fewest digits that read back as the same bits.
  template <class T>
  void real(T value) {
    std::array<char, kLongest> digits;
    if (std::isnan(value)) {
      text_ += "nan";  // to_chars may write -nan, which not every reader takes
    } else {
      text_.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
    }
    end_line();
  }
  void commit() {
    file_.write(text_);
    file_.commit();
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 18;
  static constexpr std::size_t kLongest = 64;

  void end_line() {
    text_ += '\n';
    if (text_.size() < kPiece) return;
    file_.write(text_);
    text_.clear();
  }

  AtomicFile file_;
  std::string text_;
};

}  // namespace

MatrixMarketHeader read_matrix_market_header(const std::string& path) {
  const auto source = open_matrix(path);
  Lines lines(*source, path);
  return parse_header(lines);
}

template <class T>
Csr<T> read_matrix_market(ByteSource& source, const std::string& name, const ReadOptions& options,
                          ReadReport* report) {
  Reader<T> reader(source, name, options);
  Csr<T> out = reader.csr();
  if (report != nullptr) *report = reader.report();
  return out;
}

template <class T>
Dense<T> read_matrix_market_dense(ByteSource& source, const std::string& name, Layout layout,
                                  const ReadOptions& options, ReadReport* report) {
  Reader<T> reader(source, name, options);
  Dense<T> out = reader.dense(layout);
  if (report != nullptr) *report = reader.report();
  return out;
}

template <class T>
Csr<T> read_matrix_market(const std::string& path, const ReadOptions& options, ReadReport* report) {
  return read_matrix_market<T>(*open_matrix(path), path, options, report);
}

template <class T>
Dense<T> read_matrix_market_dense(const std::string& path, Layout layout, const ReadOptions& options,
                                  ReadReport* report) {
  return read_matrix_market_dense<T>(*open_matrix(path), path, layout, options, report);
}

template <class T>
void write_matrix_market(const std::string& path, const Csr<T>& a) {
  LineWriter out(path);
  out.line("%%MatrixMarket matrix coordinate real general");
  out.line("{} {} {}", a.rows, a.cols, a.nnz());
  for (Index i = 0; i < a.rows; ++i) {
    for (Offset k = a.row_ptr[at(i)]; k < a.row_ptr[at(i) + 1]; ++k) {
      out.integer(i + 1);
      out.integer(a.col_idx[at(k)] + 1);
      out.real(a.values[at(k)]);
    }
  }
  out.commit();
}

template <class T>
void write_matrix_market(const std::string& path, const Dense<T>& a) {
  LineWriter out(path);
  out.line("%%MatrixMarket matrix array real general");
  out.line("{} {}", a.rows, a.cols);
  for (Index j = 0; j < a.cols; ++j) {
    for (Index i = 0; i < a.rows; ++i) out.real(a(i, j));
  }
  out.commit();
}

#define STAGES_INSTANTIATE(T)                                                                                \
  template Csr<T> read_matrix_market<T>(const std::string&, const ReadOptions&, ReadReport*);                \
  template Csr<T> read_matrix_market<T>(ByteSource&, const std::string&, const ReadOptions&, ReadReport*);   \
  template Dense<T> read_matrix_market_dense<T>(const std::string&, Layout, const ReadOptions&,              \
                                                ReadReport*);                                                \
  template Dense<T> read_matrix_market_dense<T>(ByteSource&, const std::string&, Layout, const ReadOptions&, \
                                                ReadReport*);                                                \
  template void write_matrix_market<T>(const std::string&, const Csr<T>&);                                   \
  template void write_matrix_market<T>(const std::string&, const Dense<T>&);
STAGES_INSTANTIATE(float)
STAGES_INSTANTIATE(double)
#undef STAGES_INSTANTIATE

}  // namespace stages
