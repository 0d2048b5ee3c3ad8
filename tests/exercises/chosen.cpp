// Which of the exercises in this program is graded: the one that STAGES_EXERCISE names.
#include "tests/exercises/chosen.hpp"

#include <cstdlib>
#include <map>
#include <string>

#include "common/matrix/error.hpp"

namespace stages {
namespace {

std::map<std::string, void (*)(Registry&)>& all() {
  static std::map<std::string, void (*)(Registry&)> exercises;
  return exercises;
}

}  // namespace

bool add_exercise(const char* name, void (*add_task)(Registry&)) {
  return all().emplace(name, add_task).second;
}

void add_task(Registry& registry) {
  const char* const wanted = std::getenv("STAGES_EXERCISE");
  const auto found = all().find(wanted != nullptr ? wanted : "");
  if (found == all().end())
    fail("STAGES_EXERCISE is '{}', and there is no such exercise here", wanted != nullptr ? wanted : "");
  found->second(registry);
}

}  // namespace stages
