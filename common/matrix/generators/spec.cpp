#include "common/matrix/generators/spec.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "common/matrix/embedded_table.hpp"

namespace stages::recipes {
namespace {

/// All of `text` as a T; nothing where it is none.
template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// digits [. digits] [e [+] digits] as the exact integer that it denotes; nothing if it denotes none, or none
/// below 2^63.
std::optional<std::int64_t> exact_integer(std::string_view text) {
  const std::size_t e = std::min(text.find_first_of("eE"), text.size());
  std::string digits(text.substr(0, e));
  const std::size_t dot = std::min(digits.find('.'), digits.size());
  digits.erase(dot, 1);
  std::string_view exponent = e < text.size() ? text.substr(e + 1) : "0";
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  const auto power = number<std::int64_t>(exponent);
  if (dot == 0 || !power || *power < 0 || *power > 18) return std::nullopt;
  const std::size_t whole = dot + static_cast<std::size_t>(*power);  // digits of the integer; then only zeros
  digits.append(static_cast<std::size_t>(*power), '0');
  if (digits.find_first_not_of("0123456789") != digits.npos) return std::nullopt;
  if (digits.find_first_not_of('0', whole) != digits.npos) return std::nullopt;
  return number<std::int64_t>(std::string_view(digits).substr(0, whole));
}

}  // namespace

Parameters::Parameters(std::string_view spec, std::string_view arguments, const GeneratorInfo& info)
    : spec_(spec), info_(info) {
  if (arguments.ends_with(',')) reject("nothing follows the last comma; for example {}", info_.example);
  for (bool first = true; !arguments.empty(); first = false) {
    const std::string_view item = take(arguments, ',');
    const std::size_t equals = item.find('=');
    const bool bare = equals == std::string_view::npos;
    if (item.empty() || (bare && !first) || (!bare && equals + 1 == item.size()))
      reject("'{}' is not KEY=VALUE; for example {}", item, info_.example);
    const std::string_view name = bare ? info_.parameters.front().name : item.substr(0, equals);
    const auto known = [&](const GeneratorParameter& p) { return p.name == name; };
    if (std::ranges::none_of(info_.parameters, known)) {
      std::vector<std::string_view> names;
      for (const GeneratorParameter& p : info_.parameters) names.push_back(p.name);
      reject("{} has no parameter '{}'; it has {}", info_.name, name, fmt::join(names, ", "));
    }
    if (!values_.emplace(name, bare ? item : item.substr(equals + 1)).second)
      reject("'{}' is given twice; give it once", name);
  }
}

std::string_view Parameters::text(std::string_view name) const {
  if (const auto found = values_.find(name); found != values_.end()) return found->second;
  const auto declared = std::ranges::find(info_.parameters, name, &GeneratorParameter::name);
  if (declared == info_.parameters.end())
    fail("generator {} reads parameter '{}', which its table lacks; add it there", info_.name, name);
  return declared->default_value;
}

std::int64_t Parameters::count(std::string_view name, std::int64_t low, std::int64_t high) const {
  const std::string_view given_text = text(name);
  const std::optional<std::int64_t> value = exact_integer(given_text);
  if (!value || *value < low || *value > high)
    reject("{}={} is not a whole number from {} to {} (1000000 and 1e6 are both fine)", name, given_text, low,
           high);
  return *value;
}

Index Parameters::index(std::string_view name, Index low) const {
  return static_cast<Index>(count(name, low, std::numeric_limits<Index>::max()));
}

Shape Parameters::shape() const {
  const bool rows = given("rows"), cols = given("cols");
  if (rows && cols && given("n")) reject("give n, or rows and cols, not all three");
  return {index(rows ? "rows" : "n"), index(cols ? "cols" : "n")};
}

std::uint64_t Parameters::seed() const {
  const std::string_view given_text = text("seed");
  const auto value = number<std::uint64_t>(given_text);
  if (!value) reject("seed={} is not a whole number from 0 to 2^64 - 1", given_text);
  return *value;
}

std::uint64_t Parameters::share(std::string_view name, double low, double high) const {
  const std::string_view given_text = text(name);
  const auto value = number<double>(given_text);
  if (!value || !(*value >= low && *value <= high))
    reject("{}={} is not a number from {} to {}", name, given_text, low, high);
  return static_cast<std::uint64_t>(*value * 0x1p32 + 0.5);  // both steps exact up to the final truncation
}

std::string_view Parameters::choice(std::string_view name,
                                    std::initializer_list<std::string_view> choices) const {
  const std::string_view given_text = text(name);
  if (const auto* const found = std::ranges::find(choices, given_text); found != choices.end()) return *found;
  reject("{}={} is none of {}", name, given_text, fmt::join(choices, ", "));
}

}  // namespace stages::recipes
