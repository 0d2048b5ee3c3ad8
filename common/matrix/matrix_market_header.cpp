#include "common/matrix/matrix_market_header.hpp"

#include <limits>

#include "common/matrix/edge_list.hpp"
#include "common/matrix/error.hpp"

namespace stages::market {
namespace {

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

}  // namespace

void require_entries(const Lines& lines, Offset bytes, Offset entries) {
  constexpr Offset kFreely = Offset{64} << 20, kLongestEntry = 1024;  // the format's longest line
  if (bytes <= kFreely || bytes / kLongestEntry <= entries || lines.source_size() >= 0) return;
  fail_at(lines.name(), lines.line() + 1,
          "{} MB of this compressed text hold too few entries, {}; unpack it, and remove comments and blanks",
          bytes >> 20, entries);
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

}  // namespace stages::market
