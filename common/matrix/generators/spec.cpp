#include "common/matrix/generators/spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "common/matrix/error.hpp"

namespace stages::recipes {
namespace {

std::string parameter_names(const GeneratorInfo& info) {
  std::string names;
  for (const auto& p : info.parameters) names += (names.empty() ? "" : ", ") + std::string(p.name);
  return names;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// digits [. digits] [e [+] digits] as the exact integer that it denotes; nothing if it denotes none, or none
/// below 2^63.
std::optional<std::int64_t> exact_integer(std::string_view text) {
  std::string digits;
  std::int64_t exponent = 0;
  std::size_t i = 0;
  while (i < text.size() && is_digit(text[i])) digits += text[i++];
  if (digits.empty()) return std::nullopt;
  if (i < text.size() && text[i] == '.') {
    for (++i; i < text.size() && is_digit(text[i]); ++i, --exponent) digits += text[i];
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    if (++i < text.size() && text[i] == '+') ++i;
    std::int64_t e = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), e);
    if (error != std::errc{} || e < 0 || e > 18 || end != text.data() + text.size()) return std::nullopt;
    exponent += e;
    i = text.size();
  }
  if (i != text.size()) return std::nullopt;
  for (; exponent < 0; ++exponent) {
    if (digits.empty() || digits.back() != '0') return std::nullopt;
    digits.pop_back();
  }
  digits.append(static_cast<std::size_t>(exponent), '0');
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

}  // namespace

SpecParts split_spec(std::string_view spec) {
  constexpr std::string_view kPrefix = "gen:";
  if (!spec.starts_with(kPrefix) || spec.size() == kPrefix.size()) {
    fail("'{}' is not a generator spec; write gen:NAME:KEY=VALUE,..., for example gen:rmat:scale=12", spec);
  }
  const std::string_view rest = spec.substr(kPrefix.size());
  const std::size_t colon = rest.find(':');
  if (colon == std::string_view::npos) return {rest, {}};
  return {rest.substr(0, colon), rest.substr(colon + 1)};
}

Parameters::Parameters(std::string_view spec, std::string_view arguments, const GeneratorInfo& info)
    : spec_(spec), info_(info) {
  if (arguments.ends_with(','))
    reject(fmt::format("nothing follows the last comma; for example {}", info_.example));
  for (bool first = true; !arguments.empty(); first = false) {
    const std::size_t comma = arguments.find(',');
    const std::string_view item = arguments.substr(0, comma);
    arguments = comma == std::string_view::npos ? std::string_view{} : arguments.substr(comma + 1);
    const std::size_t equals = item.find('=');
    const bool bare = equals == std::string_view::npos;
    if (item.empty() || (bare && !first) || (!bare && equals + 1 == item.size())) {
      reject(fmt::format("'{}' is not KEY=VALUE; for example {}", item, info_.example));
    }
    const std::string_view name = bare ? info_.parameters.front().name : item.substr(0, equals);
    const auto known = [&](const GeneratorParameter& p) { return p.name == name; };
    if (std::ranges::none_of(info_.parameters, known)) {
      reject(fmt::format("{} has no parameter '{}'; it has {}", info_.name, name, parameter_names(info_)));
    }
    if (!values_.emplace(name, bare ? item : item.substr(equals + 1)).second) {
      reject(fmt::format("'{}' is given twice; give it once", name));
    }
  }
}

void Parameters::reject(const std::string& what) const {
  throw Error(fmt::format("{}: {}", spec_, what));
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
  if (!value || *value < low || *value > high) {
    reject(fmt::format("{}={} is not a whole number from {} to {} (1000000 and 1e6 are both fine)", name,
                       given_text, low, high));
  }
  return *value;
}

Index Parameters::index(std::string_view name, Index low) const {
  return static_cast<Index>(count(name, low, std::numeric_limits<Index>::max()));
}

Parameters::Shape Parameters::shape() const {
  const bool rows = given("rows"), cols = given("cols");
  if (rows && cols && given("n")) reject("give n, or rows and cols, not all three");
  return {index(rows ? "rows" : "n"), index(cols ? "cols" : "n")};
}

std::uint64_t Parameters::seed() const {
  const std::string_view given_text = text("seed");
  std::uint64_t value = 0;
  const char* const end = given_text.data() + given_text.size();
  const auto [stop, error] = std::from_chars(given_text.data(), end, value);
  if (error != std::errc{} || stop != end)
    reject(fmt::format("seed={} is not a whole number from 0 to 2^64 - 1", given_text));
  return value;
}

std::uint64_t Parameters::share(std::string_view name, double low, double high) const {
  const std::string_view given_text = text(name);
  double value = -1;
  const char* const end = given_text.data() + given_text.size();
  const auto [stop, error] = std::from_chars(given_text.data(), end, value);
  if (error != std::errc{} || stop != end || !(value >= low && value <= high)) {
    reject(fmt::format("{}={} is not a number from {} to {}", name, given_text, low, high));
  }
  return static_cast<std::uint64_t>(value * 0x1p32 + 0.5);  // both steps exact up to the final truncation
}

std::string_view Parameters::choice(std::string_view name,
                                    std::initializer_list<std::string_view> choices) const {
  const std::string_view given_text = text(name);
  for (const std::string_view c : choices) {
    if (c == given_text) return c;
  }
  std::string list;
  for (const std::string_view c : choices) list += (list.empty() ? "" : ", ") + std::string(c);
  reject(fmt::format("{}={} is none of {}", name, given_text, list));
}

}  // namespace stages::recipes
