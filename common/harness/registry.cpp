#include "common/harness/registry.hpp"

#include <algorithm>

#include "common/matrix/error.hpp"
#include "common/matrix/nearest.hpp"

namespace stages {

void Registry::insert(Entry entry) {
  if (std::ranges::count(entries_, entry.name, &Entry::name) > 0)
    fail("entry {} is registered twice; give each idea a name of its own", entry.name);
  entries_.push_back(std::move(entry));
}

const Entry& Registry::find(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  if (found != entries_.end()) return *found;
  std::vector<std::string_view> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  fail("there is no entry '{}'; {}", name, nearest_names(name, names));
}

}  // namespace stages
