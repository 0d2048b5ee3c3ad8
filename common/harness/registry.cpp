#include "common/harness/registry.hpp"

#include <algorithm>

#include "common/matrix/error.hpp"
#include "common/matrix/nearest.hpp"

namespace stages {

Entry Entry::with(const ParameterValues& values) const {
  Entry out = *this;
  out.previous = name;
  out.name += name_of(values);
  std::apply([&](auto&... each) { ((each.values = values), ...); }, out.implementations);
  return out;
}

Entry& Registry::add(EntryInfo info, Factory factory) { return add({std::move(info), std::move(factory)}); }

Entry& Registry::add(Entry entry) {
  if (std::ranges::count(entries_, entry.name, &Entry::name) > 0)
    fail("entry {} is registered twice; give each idea a name of its own", entry.name);
  if (!entry.previous.empty() && entry.previous.find('/') == entry.previous.npos)
    entry.previous = fmt::format("{}/{}", entry.stage(), entry.previous);
  return entries_.emplace_back(std::move(entry));
}

const Entry& Registry::find(std::string_view name) const {
  if (name.find(':') != name.npos) {
    const std::vector<const Entry*> found = variants(name);
    if (found.size() > 1) fail("{}: is {} entries, and one is asked for", name, found.size());
    return *found.front();
  }
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  if (found != entries_.end()) return *found;
  std::vector<std::string_view> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  fail("there is no entry '{}'; {}", name, nearest_names(name, names));
}

std::vector<const Entry*> Registry::variants(std::string_view setting) const {
  const std::string_view name = setting.substr(0, setting.find(':'));
  const Entry& entry = find(name);
  if (entry.parameters.empty())
    fail("{} has no parameters; `list --parameters` shows the entries that have some", name);
  const std::string_view values = setting.substr(std::min(setting.size(), name.size() + 1));
  std::vector<const Entry*> out;
  for (const ParameterValues& one : combinations(values, entry.parameters, name)) {
    const auto known = std::ranges::find(variants_, entry.name + name_of(one), &Entry::name);
    out.push_back(known != variants_.end() ? &*known : &variants_.emplace_back(entry.with(one)));
  }
  return out;
}

}  // namespace stages
