#pragma once
// What we may do with a stream: rewrite lines and use colour on a terminal, neither elsewhere.

#include <cstdio>

namespace stages {

/// Whether the stream is a terminal that understands control sequences.
bool is_terminal(std::FILE* stream);

/// is_terminal, unless the environment says NO_COLOR (https://no-color.org).
bool wants_colour(std::FILE* stream);

/// Columns of the terminal; 100 where there is none.
int terminal_width(std::FILE* stream);

}  // namespace stages
