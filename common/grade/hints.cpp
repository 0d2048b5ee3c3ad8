#include "common/grade/hints.hpp"

#include "common/grade/text.hpp"

namespace stages::grade {

std::vector<std::string> hints_of(const std::filesystem::path& master) {
  constexpr std::string_view kBegin = "// Hint: ", kMore = "//   ";
  std::vector<std::string> hints;
  bool in_hint = false;
  const std::string text = read_text(master);
  for (const std::string_view line : lines_of(text)) {
    if (line.starts_with(kBegin)) {
      hints.emplace_back(line.substr(kBegin.size()));
      in_hint = true;
    } else if (in_hint && line.starts_with(kMore)) {
      hints.back().append(" ").append(line.substr(kMore.size()));
    } else {
      in_hint = false;
    }
  }
  return hints;
}

}  // namespace stages::grade
