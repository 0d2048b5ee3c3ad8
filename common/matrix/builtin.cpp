#include "common/matrix/builtin.hpp"

#include <vector>

#include "common/matrix/embedded_table.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/nearest.hpp"

namespace stages {

/// data/builtin.tsv; the build makes its definition (cmake/EmbedText.cmake).
extern const std::string_view builtin_text;

bool BuiltinMatrix::meant_for(std::string_view operation) const {
  for (std::string_view rest = operations; !rest.empty();)
    if (take(rest, ',') == operation) return true;
  return false;
}

std::span<const BuiltinMatrix> builtin_set() {
  static const std::vector<BuiltinMatrix> set = [] {
    std::vector<BuiltinMatrix> v;
    for (const auto& [name, spec, b, operations, stands_for] :
         table_rows<5>(builtin_text, "data/builtin.tsv"))
      v.push_back({name, spec, b == "-" ? std::string_view{} : b, operations, stands_for});
    return v;
  }();
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
