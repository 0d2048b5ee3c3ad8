#pragma once
// What we may do with a stream: rewrite lines and use colour on a terminal, neither elsewhere.

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace stages {

/// What the environment says; empty where it says nothing.
inline std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// Whether the stream is a terminal that understands control sequences.
inline bool is_terminal(std::FILE* stream) {
  return isatty(fileno(stream)) == 1 && environment("TERM") != "dumb";
}

/// is_terminal, unless the environment says NO_COLOR (https://no-color.org).
inline bool wants_colour(std::FILE* stream) { return is_terminal(stream) && environment("NO_COLOR").empty(); }

/// Columns of the terminal; 100 where there is none.
inline int terminal_width(std::FILE* stream) {
  winsize size{};
  return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

/// Prints on stderr, and does without where that is full or closed: no result may be lost for a remark.
template <class... Values>
void print_stderr(fmt::format_string<Values...> text, Values&&... values) {
  const std::string line = fmt::format(text, std::forward<Values>(values)...);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace stages
