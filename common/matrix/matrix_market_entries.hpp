#pragma once
// The lines behind the header of a Matrix Market file, for its reader (matrix_market.cpp).
//
// An entry of the usual shape is read by std::from_chars straight from its line; everything unusual (a comment,
// a blank line, nan, `+1`, nonsense) is taken apart into words, and that careful path alone decides what is
// wrong.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "common/matrix/error.hpp"
#include "common/matrix/matrix_market_header.hpp"

namespace stages::market {

/// Whether a decimal number that lies outside the range of its type is too large, rather than too small.
inline bool is_too_large(std::string_view number) {
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

/// A line of the usual shape: words between blanks.
class UsualLine {
 public:
  explicit UsualLine(std::string_view text) : at_(text.data()), end_(at_ + text.size()) {}

  /// Whether digits come next, with a blank or the end behind them: a row or a column, quicker than by
  /// std::from_chars, which looks for a sign and for overflow.
  bool take_index(std::int64_t& value) {
    skip_blanks();
    const char* const most = at_ + std::min<std::ptrdiff_t>(end_ - at_, 18);
    const char* const start = at_;
    for (value = 0; at_ != most && *at_ >= '0' && *at_ <= '9'; ++at_) value = 10 * value + (*at_ - '0');
    return at_ != start && (at_ == end_ || is_blank(*at_));
  }
  /// Whether a number comes next, with a blank or the end behind it.
  template <class Number>
  bool take(Number& value) {
    skip_blanks();
    const auto [stop, error] = std::from_chars(at_, end_, value);
    at_ = stop;
    return error == std::errc() && (at_ == end_ || is_blank(*at_));
  }
  /// Whether nothing but blanks is left.
  bool ends() {
    skip_blanks();
    return at_ == end_;
  }

 private:
  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
  void skip_blanks() {
    while (at_ != end_ && is_blank(*at_)) ++at_;
  }

  const char* at_;
  const char* end_;
};

/// Every whole number up to this one is a T; of the larger ones only some are.
template <class T>
constexpr std::int64_t kExactBelow = std::int64_t{1} << std::numeric_limits<T>::digits;

template <class T>
struct Entry {
  std::int64_t row = 0;  ///< as written, before the index base is taken away
  std::int64_t col = 0;
  T value = T{1};
};

/// Reads the lines behind the header.
template <class T>
class EntryReader {
 public:
  EntryReader(Lines& lines, const Header& header, const ReadOptions& options)
      : lines_(lines), header_(header), options_(options) {}

  Offset dropped = 0, non_finite = 0, rounded = 0;

  /// Calls visit(row, col, value) for every entry, 0-based, as stored; lines_.line() is its line. Throws Error
  /// unless the number of entries is the declared one.
  template <class Visit>
  void coordinates(Visit visit) {
    Entry<T> entry;
    const std::int64_t base = options_.index_base;
    for_each_line([&](std::string_view text) {
      if (!usual_entry(text, entry) && !entry_carefully(text, entry)) return;
      count_entry();
      if (entry.row < base || entry.row - base >= header_.rows || entry.col < base ||
          entry.col - base >= header_.cols) {
        if (!options_.drop_out_of_range) out_of_range(entry.row, entry.col);
        ++dropped;
        return;
      }
      visit(static_cast<Index>(entry.row - base), static_cast<Index>(entry.col - base), entry.value);
    });
  }

  /// Calls visit(i, j, value) for every value of an array file, column by column, as stored.
  template <class Visit>
  void array(Visit visit) {
    const Index below = header_.symmetry == Symmetry::skew_symmetric ? 1 : 0;
    Index i = below, j = 0;
    for_each_line([&](std::string_view text) {
      T value{};
      UsualLine line(text);
      if (!(usual_value(line, value) && line.ends()) && !value_carefully(text, value)) return;
      count_entry();
      visit(i, j, value);
      if (++i == header_.rows) {
        ++j;
        i = header_.mirrored() ? j + below : 0;
      }
    });
  }

 private:
  /// Calls take(text) for each line that is left.
  template <class Take>
  void for_each_line(Take take) {
    Offset bytes = 0;
    for (std::string_view text; lines_.next(text);) {
      bytes += std::ssize(text) + 1;
      require_entries(lines_, bytes, entries_);
      take(text);
    }
    if (entries_ != header_.stored) too_few();
  }

  void count_entry() {
    if (++entries_ <= header_.stored) return;
    const bool skew = header_.symmetry == Symmetry::skew_symmetric;
    fail_at(
        lines_.name(), lines_.line(), "more than the {} {}", header_.stored,
        header_.format == Format::array && header_.mirrored()
            ? fmt::format("values {}below the diagonal, all that a {}symmetric array holds; leave out {}what "
                          "is above it, or say 'general' in line 1",
                          skew ? "" : "on and ", skew ? "skew-" : "", skew ? "the diagonal and " : "")
            : fmt::format("entries declared in line {}; correct that line or remove the rest",
                          header_.size_line));
  }

  /// False where the careful path must decide.
  bool usual_entry(std::string_view text, Entry<T>& entry) const {
    UsualLine line(text);
    if (!line.take_index(entry.row) || !line.take_index(entry.col)) return false;
    if (header_.field == Field::pattern) return line.ends();
    return usual_value(line, entry.value) && line.ends();
  }

  bool usual_value(UsualLine& line, T& value) const {
    if (header_.field == Field::real) return line.take(value) && std::isfinite(value);
    std::int64_t whole = 0;
    if (!line.take(whole) || whole > kExactBelow<T> || whole < -kExactBelow<T>) return false;
    value = static_cast<T>(whole);
    return true;
  }

  /// False where the line holds no entry.
  bool entry_carefully(std::string_view text, Entry<T>& entry) {
    if (is_blank_or_comment(text)) return false;
    refuse_comment(text);
    const Words words(text);
    const bool pattern = header_.field == Field::pattern;
    if (words.count != 2 && words.count != 3)
      fail_at(lines_.name(), lines_.line(),
              "{} is not of the form `{}`; write each entry on a line of its own", quoted(text),
              pattern ? "row column" : "row column value");
    entry.row = index(words.word[0], "row");
    entry.col = index(words.word[1], "column");
    if (pattern != (words.count == 2))
      fail_at(lines_.name(), lines_.line(),
              "line 1 says '{}', and {} holds {} value; {} it, or say '{}' in line 1",
              pattern                           ? "pattern"
              : header_.field == Field::integer ? "integer"
                                                : "real",
              quoted(text), pattern ? "a" : "no", pattern ? "remove" : "add", pattern ? "real" : "pattern");
    entry.value = pattern ? T{1} : value(words.word[2]);
    return true;
  }

  bool value_carefully(std::string_view text, T& result) {
    if (is_blank_or_comment(text)) return false;
    refuse_comment(text);
    const Words words(text);
    if (words.count != 1)
      fail_at(lines_.name(), lines_.line(), "{} is not one value; write each value on a line of its own",
              quoted(text));
    result = value(words.word[0]);
    return true;
  }

  void refuse_comment(std::string_view text) const {
    const std::size_t comment = std::min(text.find_first_of("%#!"), text.size());
    if (comment < text.size())
      fail_at(lines_.name(), lines_.line(), "{} is a comment; put it on a line of its own that begins with %",
              quoted(text.substr(comment)));
  }

  std::int64_t index(std::string_view text, const char* what) const {
    std::int64_t number = 0;
    const Parsed parsed = parse_integer(text, number);
    if (parsed == Parsed::malformed)
      fail_at(lines_.name(), lines_.line(), "the {} {} is not a whole number; correct the line", what,
              quoted(text));
    if (parsed == Parsed::too_large)
      fail_at(lines_.name(), lines_.line(), "the {} {} does not fit into 64 bits; correct the line", what,
              quoted(text));
    return number;
  }

  T value(std::string_view text) {
    T number{};
    const bool whole = header_.field == Field::integer;
    bool exact = true;
    const Parsed parsed = whole ? parse_whole(text, number, exact) : parse_real(text, number);
    if (parsed == Parsed::malformed)
      fail_at(lines_.name(), lines_.line(), "the value {} is not {}; correct the line{}", quoted(text),
              whole ? "a whole number" : "a number", whole ? ", or say 'real' in line 1" : "");
    if (parsed == Parsed::too_large) {
      const char* const type = whole                        ? "64 bits"
                               : sizeof(T) == sizeof(float) ? "a 32-bit float"
                                                            : "a 64-bit float";
      fail_at(lines_.name(), lines_.line(), "the value {} does not fit into {}; {}", quoted(text), type,
              !whole && sizeof(T) == sizeof(float) ? "read it as 64-bit floats, or scale the matrix"
                                                   : "scale the matrix");
    }
    if (!std::isfinite(number)) {
      if (!options_.allow_non_finite)
        fail_at(lines_.name(), lines_.line(),
                "the value {} is not finite; correct it, or multiply by `stages multiply --no-check`",
                quoted(text));
      ++non_finite;
    }
    rounded += exact ? 0 : 1;
    return number;
  }

  [[noreturn]] void out_of_range(std::int64_t row, std::int64_t col) const {
    const Offset base = options_.index_base;
    const bool from_zero = base == 1 && (row == 0 || col == 0);
    fail_at(lines_.name(), lines_.line(),
            "the entry at row {}, column {} lies outside rows {}..{}, columns {}..{}; correct it or the size "
            "line{}",
            row, col, base, header_.rows - 1 + base, base, header_.cols - 1 + base,
            from_zero ? ", or read a file that counts from 0 with --index-base 0" : "");
  }

  [[noreturn]] void too_few() const {
    fail_at(lines_.name(), std::max<Offset>(lines_.line(), 1),
            "the file ends after {} of the {} entries declared in line {}; it is truncated, or that line is "
            "wrong",
            entries_, header_.stored, header_.size_line);
  }

  Lines& lines_;
  const Header& header_;
  const ReadOptions& options_;
  Offset entries_ = 0;
};

}  // namespace stages::market
