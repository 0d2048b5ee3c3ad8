#pragma once
// The command `stages lens`, and what other commands have of the lens; builds without an executor, too, where
// the command says so.

#include "common/cli/program.hpp"

namespace stages {

void add_lens_command(CommandLine& line, const Program& program);

/// For Program::count: by the lens. Empty where this build has none, or it can count nothing here.
Count count_by_lens();

}  // namespace stages
