#pragma once
// JSON as the text of a file that people look into and that version control compares.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace stages {

/// An object as text: a line for each field, and for each element of a field that is a list. Numbers with a
/// fraction have five significant digits, whole ones all of theirs.
std::string json_lines(const nlohmann::json& object);

}  // namespace stages
