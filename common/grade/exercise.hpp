#pragma once
// An exercise, as the head of its master file describes it.

#include <filesystem>
#include <string>
#include <vector>

#include "common/grade/demands.hpp"

namespace stages::grade {

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

}  // namespace stages::grade
