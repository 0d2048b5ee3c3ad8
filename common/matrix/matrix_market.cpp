// Matrix Market: the entries of a file are collected as triplets, then sorted into rows (convert.hpp).
//
// An entry of the usual shape is read by std::from_chars straight from its line; everything unusual (a comment,
// a blank line, nan, `+1`, nonsense) is taken apart into words, and that careful path alone decides what is
// wrong.

#include "common/matrix/matrix_market.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <new>
#include <string_view>
#include <tuple>
#include <vector>

#include "common/matrix/convert.hpp"
#include "common/matrix/edge_list.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/memory.hpp"
#include "common/matrix/text_lines.hpp"

namespace stages {
namespace {

using Format = MatrixMarketHeader::Format;
using Field = MatrixMarketHeader::Field;
using Symmetry = MatrixMarketHeader::Symmetry;

std::size_t at(Offset k) { return static_cast<std::size_t>(k); }

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

  if (object != "matrix")
    fail_at(name, 1, "the object {} is not read; write it as a 'matrix' (a vector as one of n x 1)",
            quoted(words.word[1]));
  if (format != "coordinate" && format != "array")
    fail_at(name, 1, "unknown format {}; it must be 'coordinate' or 'array'", quoted(words.word[2]));
  header.format = format == "array" ? Format::array : Format::coordinate;

  const bool hermitian = symmetry == "hermitian";
  if (field == "complex")
    fail_at(name, 1,
            "complex{} matrices are not read, only those of real numbers; write the real and the imaginary "
            "part to files of their own, as by scipy.io: mmwrite('real.mtx', mmread('{}').real)",
            hermitian ? " hermitian" : "", name);
  // scipy writes 'unsigned-integer' for its unsigned types, others 'double'. Hermitian is symmetric if real.
  const bool real = field == "real" || field == "double";
  if (!real && field != "integer" && field != "unsigned-integer" && field != "pattern")
    fail_at(name, 1, "unknown field {}; it must be 'real', 'integer' or 'pattern'", quoted(words.word[3]));
  header.field = real ? Field::real : field == "pattern" ? Field::pattern : Field::integer;

  if (symmetry != "general" && symmetry != "symmetric" && symmetry != "skew-symmetric" && !hermitian)
    fail_at(name, 1, "unknown symmetry {}; it must be 'general', 'symmetric' or 'skew-symmetric'",
            quoted(words.word[4]));
  header.symmetry = symmetry == "general"          ? Symmetry::general
                    : symmetry == "skew-symmetric" ? Symmetry::skew_symmetric
                                                   : Symmetry::symmetric;

  if (header.field == Field::pattern && header.format == Format::array)
    fail_at(name, 1, "'array' with 'pattern' has no values to read; write it as 'coordinate pattern'");
  if (header.field == Field::pattern && header.symmetry == Symmetry::skew_symmetric)
    fail_at(name, 1, "'pattern' with 'skew-symmetric' leaves the signs open; write the values");
}

/// How to read a file that lacks only its banner: its first numbers count the entries. Empty: it is another.
std::string lost_banner(Lines& lines) {
  Offset left = 0;
  std::size_t words = 0;
  bool from_zero = false;
  lines.rewind();
  for (std::string_view text; lines.next(text);) {
    if (is_blank_or_comment(text)) continue;
    const Words line(text);
    if (words == 0 && (line.count != 3 || parse_integer(line.word[2], left) != Parsed::good)) return "";
    if (words > 0) --left;
    from_zero |= words > 0 && (line.word[0] == "0" || line.word[1] == "0");
    words = line.count;
  }
  if (left != 0 || words < 2 || words > 3) return "";
  return fmt::format("put `%%MatrixMarket matrix coordinate {} general` in front{}",
                     words == 2 ? "pattern" : "real", from_zero ? ", and read it with --index-base 0" : "");
}

/// Says what a file without a banner may be, and how to make a Matrix Market file of it.
[[noreturn]] void no_banner(Lines& lines) {
  const std::string& name = lines.name();
  std::string_view text;
  lines.rewind();
  for (int line = 0; line < 3; ++line) lines.next(text);
  const Words words(text);
  const std::string type = words.count >= 4 ? lower(words.word[0]) : "";  // rua, psa, ...
  if (lines.line() == 3 && type.size() == 3 && type.find_first_not_of("rcpiqsuhzae") == std::string::npos)
    fail_at(name, 1,
            "this is a Rutherford-Boeing or Harwell-Boeing file (type {} in line 3); take its Matrix Market "
            "form, which collections have, too, or convert type rua by scipy.io: mmwrite('a.mtx', "
            "hb_read('{}'))",
            type, name);
  if (const std::string how = lost_banner(lines); !how.empty())
    fail_at(name, 1, "no Matrix Market banner, but a size line and its entries; {}", how);
  if (begins_as_edge_list(lines))
    fail_at(name, 1,
            "no Matrix Market banner; {}; if this is an edge list, `stages convert {} -o a.mtx.gz` makes a "
            "Matrix Market file of it",
            kBannerRule, name);
  fail_at(name, 1, "no Matrix Market banner; {}", kBannerRule);
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
  if (banner != "%%matrixmarket" && banner != "%matrixmarket") no_banner(lines);
  if (words.count != 5)
    fail_at(lines.name(), 1, "the banner has {} words instead of 5; {}", words.count, kBannerRule);
  parse_qualifiers(lines.name(), words, header);
}

Offset parse_size(const Lines& lines, std::string_view text, const char* what, Offset most) {
  Offset value = 0;
  const Parsed parsed = parse_integer(text, value);
  if (parsed == Parsed::malformed || (parsed == Parsed::good && value < 0))
    fail_at(lines.name(), lines.line(), "the number of {} is {}; it must be a whole number, 0 or more", what,
            quoted(text));
  if (parsed == Parsed::too_large || value > most)
    fail_at(lines.name(), lines.line(), "the number of {} is {}, above the largest, {}; split the matrix",
            what, quoted(text), most);
  return value;
}

/// How many values an array file holds.
Offset array_values(const Header& h) {
  const Offset n = h.rows;
  switch (h.symmetry) {
    case Symmetry::symmetric: return n * (n + 1) / 2;
    case Symmetry::skew_symmetric: return n == 0 ? 0 : n * (n - 1) / 2;
    case Symmetry::general: break;
  }
  return n * h.cols;
}

/// Throws Error where a packed file is mostly comments and blanks: with them kilobytes become hours of
/// reading. What is not packed is read in proportion to its size whatever it holds.
void require_entries(const Lines& lines, Offset bytes, Offset entries) {
  constexpr Offset kFreely = Offset{64} << 20, kLongestEntry = 1024;  // the format's longest line
  if (bytes <= kFreely || bytes / kLongestEntry <= entries || lines.source_size() >= 0) return;
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
    if (!lines.next(text))
      fail_at(lines.name(), lines.line() + 1, "the file ends before its size line; add `{}`", shape);
    bytes += std::ssize(text) + 1;
    require_entries(lines, bytes, 0);
  } while (is_blank_or_comment(text));

  const Words words(text);
  if (words.count != (coordinate ? 3u : 2u))
    fail_at(lines.name(), lines.line(), "the size line has {} numbers; it must be `{}`", words.count, shape);
  constexpr Offset kMostLines = std::numeric_limits<Index>::max();
  header.rows = static_cast<Index>(parse_size(lines, words.word[0], "rows", kMostLines));
  header.cols = static_cast<Index>(parse_size(lines, words.word[1], "columns", kMostLines));
  if (header.mirrored() && header.rows != header.cols)
    fail_at(lines.name(), lines.line(),
            "the matrix is {} x {}, but a symmetric one is square; correct the sizes or the banner",
            header.rows, header.cols);
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
  if (lines.source_size() >= 0 && header.stored > lines.source_size() / shortest + 1)
    fail_at(
        lines.name(), header.size_line,
        "{} entries are declared, but the file has only {} bytes; it is truncated, or the sizes are wrong",
        header.stored, lines.source_size());
  return header;
}

// ---------------------------------------------------------------------------------------------- memory

/// Throws Error unless `result` and `besides` more bytes can be allocated; a limit of the caller's is for the
/// result alone. Asked before every large allocation: Linux promises memory that it does not have, and ends
/// the program when it is used.
void require_memory(const Lines& lines, const Header& header, const ReadOptions& options, double result,
                    double besides) {
  constexpr double kNotWorthAsking = 64e6;
  const bool limited = options.max_bytes > 0;
  const double bytes = limited ? result : result + besides;
  if (!limited && bytes < kNotWorthAsking) return;
  const auto most = static_cast<double>(limited ? options.max_bytes : available_memory());
  if (bytes > most)
    fail_at(lines.name(), header.size_line,
            "the {} x {} matrix takes {:.2f} GB, but only {:.2f} GB may be used; use a smaller matrix or a "
            "larger machine",
            header.rows, header.cols, bytes / 1e9, most / 1e9);
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

// ---------------------------------------------------------------------------------------- the whole file

template <class T>
class Reader {
 public:
  Reader(ByteSource& source, const std::string& name, const ReadOptions& options)
      : options_(options), lines_(source, name) {
    if (options.index_base != 0 && options.index_base != 1)
      fail("index base {}: rows and columns can be counted from 0 or from 1", options.index_base);
    header_ = parse_header(lines_);
    report_.header = header_;
  }

  Csr<T> csr() {
    return with_memory(lines_.name(), [&] { return sorted_rows(); });
  }

  Dense<T> dense(Layout layout) {
    return with_memory(lines_.name(), [&] {
      if (header_.format == Format::array) return dense_of_array(layout);
      const Csr<T> sparse = sorted_rows();
      require_dense_memory();
      return to_dense(sparse, layout);
    });
  }

  const ReadReport& report() const { return report_; }

 private:
  /// Calls visit(row, col, value) for every entry of the file, as stored.
  template <class Visit>
  void read(Visit visit) {
    EntryReader<T> entries(lines_, header_, options_);
    if (header_.format == Format::array) {
      entries.array(visit);
    } else {
      entries.coordinates(visit);
    }
    report_.dropped = entries.dropped;
    report_.non_finite = entries.non_finite;
    report_.rounded = entries.rounded;
  }

  /// The same once more, from the start of the file.
  template <class Visit>
  void read_again(Visit visit) {
    lines_.rewind();
    if (!(parse_header(lines_) == header_)) changed();
    read(visit);
  }

  [[noreturn]] void changed() const {
    fail_at(lines_.name(), 1, "the file was changed while it was being read; wait until it is complete");
  }

  T mirror_of(T value) const { return header_.symmetry == Symmetry::symmetric ? value : -value; }

  static constexpr double kTriplet = 2 * sizeof(Index) + sizeof(T);

  double row_bytes() const { return (header_.rows + 1.0) * sizeof(Offset); }
  void require_dense_memory() const {
    const double rows = header_.rows, cols = header_.cols;
    require_memory(lines_, header_, options_, rows * cols * sizeof(T), 0);
  }

  /// The rows, and `nnz` entries in them; a limit of the caller's is for both.
  void require_row_memory(Offset nnz) const {
    // A size line may name two thousand million rows for a handful of entries. A matrix of 100 million is one
    // that somebody may want; far beyond, it is a mistake or worse.
    constexpr Index kMany = 1 << 20;
    if (options_.max_bytes == 0 && header_.rows > kMany && header_.rows / 8 > nnz &&
        row_bytes() > kMostForEmptyLines) {
      fail_at(lines_.name(), header_.size_line,
              "{} rows for {} entries take {:.2f} GB, and the limit is {:.2f} GB where most rows are empty; "
              "leave out rows without entries",
              header_.rows, header_.stored, row_bytes() / 1e9, kMostForEmptyLines / 1e9);
    }
    const double entries = static_cast<double>(nnz) * (sizeof(Index) + sizeof(T));
    require_memory(lines_, header_, options_, entries + row_bytes(), 0);
  }

  /// Room for `more` triplets besides those that are there, which are moved then.
  void make_room(Coo<T>& triplets, Offset more) const {
    const std::size_t size = triplets.values.size() + at(more);
    require_memory(lines_, header_, options_, 0, kTriplet * static_cast<double>(size));
    triplets.row_idx.reserve(size);
    triplets.col_idx.reserve(size);
    triplets.values.reserve(size);
  }

  /// The entries of the whole matrix, those on the other side of a symmetric one too, in file order.
  Coo<T> triplets() {
    Coo<T> all{header_.rows, header_.cols, {}, {}, {}};
    // What a size line claims is not believed beyond what the file can hold: an entry takes a byte or more, and
    // of compressed text no length is known.
    const Offset believed = std::clamp<Offset>(lines_.packed_size(), 0, header_.stored);
    make_room(all, believed * (header_.mirrored() ? 2 : 1));
    const auto push = [&](Index row, Index col, T value) {
      if (all.values.size() == all.values.capacity()) make_room(all, all.nnz() + 1024);
      all.push(row, col, value);
    };
    const bool array = header_.format == Format::array;
    read([&](Index row, Index col, T value) {
      if (array && value == T{0}) return;
      push(row, col, value);
      if (!header_.mirrored()) return;
      if (row == col) {
        if (header_.symmetry == Symmetry::skew_symmetric && value != T{0}) diagonal_of_skew(row);
        return;
      }
      push(col, row, mirror_of(value));
      (row > col ? below_ : above_) = true;
    });
    return all;
  }

  Csr<T> sorted_rows() {
    Coo<T> all = triplets();
    const Offset read = all.nnz();
    require_row_memory(read);
    Csr<T> out = to_csr(std::move(all));
    report_.repeated = read - out.nnz();
    if (report_.repeated > 0 && below_ && above_) refuse_both_triangles();
    if (report_.repeated > 0 && !options_.allow_non_finite) require_finite_sums(out);
    lines_.rewind();  // which sees whether the file is still the same
    return out;
  }

  Dense<T> dense_of_array(Layout layout) {
    require_dense_memory();
    read([](auto&&...) {});  // checks the number of values before memory is taken for them
    Dense<T> out(header_.rows, header_.cols, layout);
    if (header_.symmetry == Symmetry::skew_symmetric) std::fill(out.data.begin(), out.data.end(), T{0});
    read_again([&](Index i, Index j, T value) {
      out(i, j) = value;
      if (header_.mirrored() && i != j) out(j, i) = mirror_of(value);
    });
    return out;
  }

  [[noreturn]] void diagonal_of_skew(Index row) const {
    fail_at(lines_.name(), lines_.line(),
            "the diagonal of a skew-symmetric matrix is zero, and the entry at row {} is not; correct it, or "
            "say 'general' in line 1",
            row + options_.index_base);
  }

  /// Repeated entries whose sum is no number any more are refused, with the line of the last of them.
  void require_finite_sums(const Csr<T>& a) {
    const auto found = std::ranges::find_if(a.values, [](T value) { return !std::isfinite(value); });
    if (found == a.values.end()) return;
    const Offset k = found - a.values.begin();
    const auto row = static_cast<Index>(std::ranges::upper_bound(a.row_ptr, k) - a.row_ptr.begin() - 1);
    const Index col = a.col_idx[at(k)];
    Offset last = 0;
    read_again([&](Index i, Index j, T) {
      if ((i == row && j == col) || (header_.mirrored() && i == col && j == row)) last = lines_.line();
    });
    if (last == 0) changed();
    fail_at(lines_.name(), last,
            "the entries at row {}, column {} add up to more than a {}-bit float holds; keep one of them, or "
            "scale the matrix",
            row + options_.index_base, col + options_.index_base, 8 * sizeof(T));
  }

  /// A symmetric file with a place in both triangles would come out doubled there. Looks for its line. Repeats
  /// within a triangle are added, as everywhere.
  void refuse_both_triangles() {
    std::vector<std::tuple<Index, Index, bool, Offset>> places;  // whether it is above the diagonal, the line
    read_again([&](Index i, Index j, T) {
      places.emplace_back(std::min(i, j), std::max(i, j), i < j, lines_.line());
    });
    std::ranges::sort(places);
    for (std::size_t k = 1; k < places.size(); ++k) {
      const auto& [row, col, above, line] = places[k];
      const auto& [same_row, same_col, above_before, line_before] = places[k - 1];
      if (row == same_row && col == same_col && above != above_before)
        fail_at(
            lines_.name(), line,
            "the entry at row {}, column {} is there below the diagonal, too: a symmetric file that stores "
            "both triangles; keep one of them, or say 'general' in line 1",
            row + options_.index_base, col + options_.index_base);
    }
  }

  ReadOptions options_;
  Lines lines_;
  Header header_;
  ReadReport report_;
  bool below_ = false, above_ = false;  ///< the triangles of a symmetric matrix that hold entries
};

// ---------------------------------------------------------------------------------------------- writing

/// Collects lines and hands them on in large pieces.
class LineWriter {
 public:
  explicit LineWriter(const std::string& path) : file_(path) {}

  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_.push_back('\n');
    if (text_.size() >= kPiece) hand_on();
  }
  void commit() {
    hand_on();
    file_.commit();
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 18;

  void hand_on() {
    file_.write({text_.data(), text_.size()});
    text_.clear();
  }

  AtomicFile file_;
  fmt::memory_buffer text_;
};

/// A value for `{}`, which writes the fewest digits that read back as the same bits; but not `-nan`, which not
/// every reader takes.
template <class T>
T writable(T value) {
  return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
}

}  // namespace

MatrixMarketHeader read_matrix_market_header(const std::string& path) {
  const auto source = open_unpacked(path);
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
  return read_matrix_market<T>(*open_unpacked(path), path, options, report);
}

template <class T>
Dense<T> read_matrix_market_dense(const std::string& path, Layout layout, const ReadOptions& options,
                                  ReadReport* report) {
  return read_matrix_market_dense<T>(*open_unpacked(path), path, layout, options, report);
}

template <class T>
void write_matrix_market(const std::string& path, const Csr<T>& a, bool pattern) {
  LineWriter out(path);
  out.line("%%MatrixMarket matrix coordinate {} general", pattern ? "pattern" : "real");
  out.line("{} {} {}", a.rows, a.cols, a.nnz());
  for (Index i = 0; i < a.rows; ++i) {
    for (Offset k = a.row_ptr[at(i)]; k < a.row_ptr[at(i) + 1]; ++k) {
      if (pattern) {
        out.line("{} {}", i + 1, a.col_idx[at(k)] + 1);
      } else {
        out.line("{} {} {}", i + 1, a.col_idx[at(k)] + 1, writable(a.values[at(k)]));
      }
    }
  }
  out.commit();
}

template <class T>
void write_matrix_market(const std::string& path, const Dense<T>& a) {
  LineWriter out(path);
  out.line("%%MatrixMarket matrix array real general");
  out.line("{} {}", a.rows, a.cols);
  for (Index j = 0; j < a.cols; ++j)
    for (Index i = 0; i < a.rows; ++i) out.line("{}", writable(a(i, j)));
  out.commit();
}

#define STAGES_INSTANTIATE(T)                                                                                \
  template Csr<T> read_matrix_market<T>(const std::string&, const ReadOptions&, ReadReport*);                \
  template Csr<T> read_matrix_market<T>(ByteSource&, const std::string&, const ReadOptions&, ReadReport*);   \
  template Dense<T> read_matrix_market_dense<T>(const std::string&, Layout, const ReadOptions&,              \
                                                ReadReport*);                                                \
  template Dense<T> read_matrix_market_dense<T>(ByteSource&, const std::string&, Layout, const ReadOptions&, \
                                                ReadReport*);                                                \
  template void write_matrix_market<T>(const std::string&, const Csr<T>&, bool);                             \
  template void write_matrix_market<T>(const std::string&, const Dense<T>&);
STAGES_INSTANTIATE(float)
STAGES_INSTANTIATE(double)

}  // namespace stages
