#pragma once
// The command that not every program has: what is about kernels.

#include "common/cli/commands.hpp"

namespace stages {

void add_lens_command(CommandLine& line, const Program& program);

/// For Program::count: by the lens. Empty where this build has none, or it can count nothing here.
Count count_by_lens();

}  // namespace stages
