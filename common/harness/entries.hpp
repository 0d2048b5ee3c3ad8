#pragma once
// What one program was built from. CMake writes a source for each (cmake/registration.cpp.in) that defines both
// functions: for `stages` and the tests all steps and vendor libraries, for a step's program that step alone.

#include <string>
#include <vector>

#include "common/harness/registry.hpp"

namespace stages {

/// Something that this build could have had.
struct LeftOut {
  std::string name;   ///< a step's directory or a vendor library
  std::string needs;  ///< what must be there when the build is configured
};

/// Registers the entries of this program, in the order of the course.
void add_entries(Registry& registry);

/// Steps and vendor libraries that were left out when this build was configured.
std::vector<LeftOut> left_out();

}  // namespace stages
