#pragma once
// What we may do with a stream: rewrite lines and use colour on a terminal, neither elsewhere.

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace stages {

/// Whether the stream is a terminal that understands control sequences.
bool is_terminal(std::FILE* stream);

/// is_terminal, unless the environment says NO_COLOR (https://no-color.org).
bool wants_colour(std::FILE* stream);

/// Columns of the terminal; 100 where there is none.
int terminal_width(std::FILE* stream);

/// Prints on stderr, and does without where that is full or closed: no result may be lost for a remark.
template <class... Values>
void print_stderr(fmt::format_string<Values...> text, Values&&... values) {
  const std::string line = fmt::format(text, std::forward<Values>(values)...);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace stages
