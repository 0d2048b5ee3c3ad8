#pragma once
// The commands that every program has. Each function adds one to the command line.

#include "common/cli/options.hpp"
#include "common/cli/program.hpp"

namespace stages {

void add_list_command(CommandLine& line, const Program& program);
void add_run_command(CommandLine& line, const Program& program);
void add_multiply_command(CommandLine& line, const Program& program);
void add_info_command(CommandLine& line, const Program& program);
void add_generate_command(CommandLine& line, const Program& program);
void add_convert_command(CommandLine& line, const Program& program);

/// The foot of a help text: "Examples:" and lines, each a command of this program and what it does.
std::string examples(const Program& program, const std::vector<std::pair<std::string, std::string>>& lines);

}  // namespace stages
