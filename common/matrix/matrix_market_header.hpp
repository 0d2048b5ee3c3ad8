#pragma once
// The first lines of a Matrix Market file, for its reader (matrix_market.cpp).

#include <charconv>
#include <string_view>

#include "common/matrix/matrix_market.hpp"
#include "common/matrix/text_lines.hpp"

namespace stages::market {

using Header = MatrixMarketHeader;
using Format = Header::Format;
using Field = Header::Field;
using Symmetry = Header::Symmetry;

/// Throws Error where the file does not begin as one of this format does.
Header parse_header(Lines& lines);

/// Throws Error where a packed file is mostly comments and blanks: with them kilobytes become hours of
/// reading. What is not packed is read in proportion to its size whatever it holds.
void require_entries(const Lines& lines, Offset bytes, Offset entries);

enum class Parsed { good, malformed, too_large };

inline std::string_view without_plus(std::string_view text) {
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

}  // namespace stages::market
