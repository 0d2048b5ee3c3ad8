#pragma once
// An exercise, as the head of its master file describes it.

#include <filesystem>
#include <string>
#include <vector>

#include "common/judge/demands.hpp"

namespace stages::judge {

struct Exercise {
  std::filesystem::path master;
  std::string task;       ///< one line
  std::string reference;  ///< the entry that it must be as good as
  int ranks = 1;
  std::string speed;  ///< spec of the matrix on which speed is compared; empty: it is not
  std::vector<Demand> demands = {};
  CountedOn counted_on = {};
};

/// The sources in a directory, sorted; none where there is no such directory.
std::vector<std::filesystem::path> sources_in(const std::filesystem::path& directory);

/// The exercise in `stage`, a directory of steps, that has the file's name. Throws Error where there is none,
/// or its head makes no sense.
Exercise exercise_for(const std::filesystem::path& stage, const std::filesystem::path& file);

/// What follows "// Hint: " in the head of a master, and in no file that a student gets, in order: first a
/// question, then the idea, then nearly the lines. A hint goes on in lines that begin with "//   ". Empty: the
/// exercise has none.
std::vector<std::string> hints_of(const std::filesystem::path& master);

}  // namespace stages::judge
