#pragma once
// Tables of text that are embedded in the program (cmake/EmbedText.cmake): a row a line, fields between tabs,
// comments behind #.

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "common/matrix/error.hpp"

namespace stages {

/// Cuts `text` behind the next `separator`, or at its end, and returns what stood before it.
inline std::string_view take(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view head = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  return head;
}

/// The rows of `text`, each of N fields that are not empty. Throws Error, naming file and line, for another
/// row.
template <std::size_t N>
std::vector<std::array<std::string_view, N>> table_rows(std::string_view text, std::string_view file) {
  std::vector<std::array<std::string_view, N>> rows;
  for (int line_number = 1; !text.empty(); ++line_number) {
    std::string_view line = take(text, '\n');
    if (line.empty() || line.front() == '#') continue;
    std::array<std::string_view, N>& fields = rows.emplace_back();
    for (std::string_view& field : fields) {
      field = take(line, '\t');
      if (field.empty()) fail("{}:{}: fewer than {} fields; separate them by tabs", file, line_number, N);
    }
    if (!line.empty()) fail("{}:{}: more than {} fields", file, line_number, N);
  }
  return rows;
}

}  // namespace stages
