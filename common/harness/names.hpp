#pragma once
// Enums whose values have names in options and results. Each has one table, a constexpr array of Named, from
// which names are written, read and listed.

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stages {

template <class E>
struct Named {
  E value;
  std::string_view name;
};

/// The name of a value that the table has; empty for any other.
template <class E, std::size_t N>
std::string name_of(const std::array<Named<E>, N>& table, E value) {
  for (const Named<E>& one : table) {
    if (one.value == value) return std::string(one.name);
  }
  return {};
}

/// The value of that name; nothing where the table has no such name.
template <class E, std::size_t N>
std::optional<E> value_named(const std::array<Named<E>, N>& table, std::string_view name) {
  for (const Named<E>& one : table) {
    if (one.name == name) return one.value;
  }
  return std::nullopt;
}

/// All names, in the order of the table.
template <class E, std::size_t N>
std::vector<std::string> names_in(const std::array<Named<E>, N>& table) {
  std::vector<std::string> names;
  for (const Named<E>& one : table) names.emplace_back(one.name);
  return names;
}

}  // namespace stages
