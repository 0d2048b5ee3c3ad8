#include "common/matrix/builtin.hpp"

#include <array>
#include <string>
#include <vector>

#include "common/matrix/error.hpp"
#include "common/matrix/nearest.hpp"

namespace stages {

/// data/builtin.tsv; the build makes its definition (cmake/EmbedText.cmake).
extern const std::string_view builtin_text;

namespace {

/// Cuts `text` behind the next `separator`, or at its end.
std::string_view take(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view head = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  return head;
}

std::vector<BuiltinMatrix> parse(std::string_view text) {
  std::vector<BuiltinMatrix> set;
  for (int line_number = 1; !text.empty(); ++line_number) {
    std::string_view line = take(text, '\n');
    if (line.empty() || line.front() == '#') continue;
    std::array<std::string_view, 5> fields;
    for (std::string_view& field : fields) {
      field = take(line, '\t');
      if (field.empty()) fail("data/builtin.tsv:{}: fewer than 5 fields; separate them by tabs", line_number);
    }
    if (!line.empty()) fail("data/builtin.tsv:{}: more than 5 fields", line_number);
    set.push_back(
        {fields[0], fields[1], fields[2] == "-" ? std::string_view{} : fields[2], fields[3], fields[4]});
  }
  return set;
}

}  // namespace

bool BuiltinMatrix::meant_for(std::string_view operation) const {
  for (std::string_view rest = operations; !rest.empty();) {
    if (take(rest, ',') == operation) return true;
  }
  return false;
}

std::span<const BuiltinMatrix> builtin_set() {
  static const std::vector<BuiltinMatrix> set = parse(builtin_text);
  return set;
}

const BuiltinMatrix& builtin(std::string_view name) {
  std::vector<std::string_view> names;
  for (const BuiltinMatrix& m : builtin_set()) {
    if (m.name == name) return m;
    names.push_back(m.name);
  }
  fail("data:{}: the built-in set has no such matrix; {}", name, nearest_names(name, names));
}

}  // namespace stages
