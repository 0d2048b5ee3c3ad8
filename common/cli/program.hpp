#pragma once
// The program: `stages` with every entry, and one program a step of the same shape with only its entries.
// What differs between them is the source that CMake writes for each (common/harness/entries.hpp).

#include <string>
#include <vector>

#include "common/harness/entries.hpp"
#include "common/machines/ranks.hpp"

namespace stages {

/// What the commands work with.
struct Program {
  std::string name;                    ///< as it was called, without the directory
  std::vector<std::string> arguments;  ///< the whole command line
  Registry registry;
  std::vector<LeftOut> left_out;
  Ranks* ranks = nullptr;  ///< that run the program together; outlives this object
};

/// What a program returns to the shell.
enum ExitCode {
  kGood = 0,
  kWrongResult = 1,  ///< an entry computed something wrong, or failed
  kBadInput = 2,     ///< bad usage or input, or not enough memory
  kAllSkipped = 77,  ///< nothing could run here; the value that test drivers take for "skipped"
};

/// An error as the user gets it, whatever its text looked like: one line, with the program's name.
std::string error_line(const Program& program, const std::string& what);

/// What a user is told after std::bad_alloc.
std::string out_of_memory();

/// main: parses the command line, runs the command, and turns errors into one line on stderr and an exit
/// code.
int run_program(int argc, char** argv, void (*add_entries)(Registry&), std::vector<LeftOut> left_out);

}  // namespace stages
