#pragma once
// The commands. Each function adds one to the parser; when the command line asks for it, `chosen` becomes the
// work to do, which returns the exit code.

#include <CLI/CLI.hpp>
#include <functional>

#include "common/cli/program.hpp"

namespace stages {

using Work = std::function<int()>;

void add_list_command(CLI::App& app, const Program& program, Work& chosen);
void add_run_command(CLI::App& app, const Program& program, Work& chosen);
void add_multiply_command(CLI::App& app, const Program& program, Work& chosen);
void add_info_command(CLI::App& app, const Program& program, Work& chosen);
void add_generate_command(CLI::App& app, const Program& program, Work& chosen);
void add_grade_command(CLI::App& app, const Program& program, Work& chosen);
void add_new_command(CLI::App& app, const Program& program, Work& chosen);

/// The foot of a help text: "Examples:" and the lines, each a command of this program followed by what it
/// does.
std::string examples(const Program& program, const std::vector<std::pair<std::string, std::string>>& lines);

}  // namespace stages
