#include "common/harness/json_lines.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace stages {
namespace {

using nlohmann::json;

void round_numbers(json& value) {
  if (value.is_structured()) {
    for (json& inner : value) round_numbers(inner);
  } else if (value.is_number_float()) {
    const auto number = value.get<double>();
    if (number != std::floor(number)) value = json::parse(fmt::format("{:.5g}", number));
  }
}

/// A byte that is no UTF-8 (a matrix may be a file of any name) is replaced.
std::string in_one_line(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string json_lines(const json& object) {
  json rounded = object;
  round_numbers(rounded);
  std::string out = "{";
  for (const auto& [name, value] : rounded.items()) {
    out += fmt::format("{}\"{}\": ", out.size() > 1 ? ",\n" : "", name);
    if (value.is_array() && !value.empty()) {
      const char* before = "[\n";
      for (const json& element : value) out += std::exchange(before, ",\n") + in_one_line(element);
      out += "]";
    } else {
      out += in_one_line(value);
    }
  }
  return out + "}\n";
}

}  // namespace stages
