#pragma once
// The program: `stages` with every entry, and one program a step of the same shape with only its entries.
// What differs between them is the source that CMake writes for each (common/harness/entries.hpp).

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/cli/machines/ranks.hpp"
#include "common/cli/options.hpp"
#include "common/harness/entries.hpp"

namespace stages {

struct Program;

/// What the kernels of one product asked of memory, which was checked and not timed (results.hpp).
struct Counted {
  std::vector<Metric> metrics;
  std::string bound;
};
using Count = std::function<Counted(const std::function<void()>& product, const ProblemFacts& problem)>;

/// What one program is made of (common/programs).
struct Parts {
  void (*add_entries)(Registry&) = nullptr;
  std::vector<LeftOut> left_out;
  std::vector<void (*)(CommandLine&, const Program&)> commands;  ///< beside those that every program has
  Count count;                                                   ///< empty: kernels are not counted
};

/// What the commands work with.
struct Program : Parts {
  std::string name;                    ///< as it was called, without the directory
  std::vector<std::string> arguments;  ///< the whole command line
  Ranks& ranks;                        ///< that run the program together
  Registry registry = {};
};

/// What a program returns to the shell.
enum ExitCode {
  kGood = 0,
  kWrongResult = 1,  ///< an entry computed something wrong, or failed
  kBadInput = 2,     ///< bad usage or input, or not enough memory
  kAllSkipped = 77,  ///< nothing could run here; the value that test drivers take for "skipped"
};

// The commands that every program has: each function adds one to the command line.
void add_list_command(CommandLine& line, const Program& program);
void add_run_command(CommandLine& line, const Program& program);
void add_multiply_command(CommandLine& line, const Program& program);
void add_info_command(CommandLine& line, const Program& program);
void add_generate_command(CommandLine& line, const Program& program);
void add_convert_command(CommandLine& line, const Program& program);

/// The foot of a help text: "Examples:" and lines, each a command of this program and what it does.
std::string examples(const Program& program, const std::vector<std::pair<std::string, std::string>>& lines);

/// An error as the user gets it, whatever its text looked like: one line, with the program's name.
std::string error_line(const Program& program, const std::string& what);

/// What a user is told after std::bad_alloc.
std::string out_of_memory();

/// main: parses the command line and runs the command; an error is one line on stderr and an exit code.
int run_program(int argc, char** argv, Parts parts);

}  // namespace stages
