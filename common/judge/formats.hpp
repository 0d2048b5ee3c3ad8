#pragma once
// Grades in the forms that others read.

#include <string>
#include <vector>

#include "common/judge/judge.hpp"

namespace stages::judge {

/// For scripts. `confined`: students' programs were kept from everything that docs/exercises.md names.
std::string grades_as_json(const std::vector<Grade>& grades, const std::string& stage, bool confined);

/// Gradescope's results.json: a test for each class of input. Points add up to 100 a file.
std::string grades_as_gradescope(const std::vector<Grade>& grades);

/// Classroom 50's result.json (schema classroom50/result/v1): a test of 100 points for each file, and one of
/// none for each class of input, with the reason as its "output". Who handed in what is taken from the
/// variables that its runner sets; a field whose variable is not set is left out.
std::string grades_as_classroom50(const std::vector<Grade>& grades);

/// JUnit's XML, which CI services show: a suite for each file, a case for each class of input.
std::string grades_as_junit(const std::vector<Grade>& grades, const std::string& stage);

}  // namespace stages::judge
