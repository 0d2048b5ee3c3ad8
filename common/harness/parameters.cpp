#include "common/harness/parameters.hpp"

#include <algorithm>
#include <charconv>

#include "common/matrix/error.hpp"
#include "common/matrix/nearest.hpp"

namespace stages {
namespace {

Index number(std::string_view text, const Parameter& parameter, std::string_view entry) {
  Index value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < parameter.least ||
      value > parameter.most)
    fail("{}:{}={}: must be a whole number from {} to {}", entry, parameter.name, text, parameter.least,
         parameter.most);
  return value;
}

}  // namespace

Index chosen(const ParameterValues& values, std::string_view name) {
  for (const auto& [of, value] : values)
    if (of == name) return value;
  return 0;
}

std::string name_of(const ParameterValues& values) {
  std::string out;
  for (const auto& [name, value] : values)
    out += fmt::format("{}{}={}", out.empty() ? ":" : ",", name, value);
  return out;
}

std::vector<ParameterValues> combinations(std::string_view text, const std::vector<Parameter>& parameters,
                                          std::string_view entry) {
  std::vector<std::vector<Index>> wanted(parameters.size());
  std::size_t k = parameters.size();  // of the parameter whose values are read
  for (bool more = true; more;) {
    std::string_view word = text.substr(0, text.find(','));
    more = word.size() < text.size();
    text.remove_prefix(word.size() + (more ? 1 : 0));
    if (const std::size_t equals = word.find('='); equals != word.npos) {
      const std::string_view name = word.substr(0, equals);
      const auto found = std::ranges::find(parameters, name, &Parameter::name);
      if (found == parameters.end()) {
        std::vector<std::string_view> names;
        for (const Parameter& parameter : parameters) names.push_back(parameter.name);
        fail("{} has no parameter '{}'; {}", entry, name, nearest_names(name, names));
      }
      k = static_cast<std::size_t>(found - parameters.begin());
      word.remove_prefix(equals + 1);
    }
    if (k == parameters.size())
      fail("{}: '{}' names no parameter; write {}:{}=VALUE, and several values with commas", entry, word,
           entry, parameters.front().name);
    const Index value = number(word, parameters[k], entry);
    if (std::ranges::find(wanted[k], value) == wanted[k].end()) wanted[k].push_back(value);
  }
  std::vector<ParameterValues> out(1);
  for (k = 0; k < parameters.size(); ++k) {
    std::vector<ParameterValues> longer;
    for (const ParameterValues& before : out) {
      for (const Index value : wanted[k]) {
        longer.push_back(before);
        longer.back().emplace_back(parameters[k].name, value);
      }
    }
    if (!longer.empty()) out = std::move(longer);
  }
  return out;
}

}  // namespace stages
