#include "common/harness/registry.hpp"

#include <algorithm>

#include "common/matrix/error.hpp"
#include "common/matrix/nearest.hpp"

namespace stages {

Entry& Registry::insert(EntryInfo info, Op op) {
  if (std::ranges::count(entries_, info.name, &Entry::name) > 0)
    fail("entry {} is registered twice; give each idea a name of its own", info.name);
  return entries_.emplace_back(Entry{std::move(info), op, {}});
}

const Entry& Registry::find(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  if (found != entries_.end()) return *found;
  std::vector<std::string_view> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  fail("there is no entry '{}'; {}", name, nearest_names(name, names));
}

}  // namespace stages
