#pragma once
// The command of the judge, which `stages` has, and no program of a step.

#include "common/cli/program.hpp"

namespace stages::judge {

void add_grade_command(CommandLine& line, const Program& program);

}  // namespace stages::judge
