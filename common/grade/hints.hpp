#pragma once
// The hints of an exercise, which stand in the head of its master file, and in no file that a student gets.

#include <filesystem>
#include <string>
#include <vector>

namespace stages::grade {

/// What follows "// Hint: " in the head of a master, in order: first a question, then the idea, then nearly the
/// lines. A hint goes on in lines that begin with "//   ". Empty: the exercise has none.
std::vector<std::string> hints_of(const std::filesystem::path& master);

}  // namespace stages::grade
