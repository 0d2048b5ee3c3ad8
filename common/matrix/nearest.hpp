#pragma once
// What to say when a name is unknown: the names that the user may have meant.

#include <span>
#include <string>
#include <string_view>

namespace stages {

/// "did you mean 'a' or 'b'?" with the nearest of `names` (by edits, or because one contains the other);
/// where none is near, all of them: "there are a, b, c".
std::string nearest_names(std::string_view wanted, std::span<const std::string_view> names);

}  // namespace stages
