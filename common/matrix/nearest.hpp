#pragma once
// What to say when a name is unknown: the names that the user may have meant.

#include <span>
#include <string>
#include <string_view>

namespace stages {

/// "the nearest are 'a' and 'b'": those of `names` that are few edits from `wanted`, contain it or are
/// contained in it. Where there are none, all names: "there are a, b, c".
std::string nearest_names(std::string_view wanted, std::span<const std::string_view> names);

}  // namespace stages
