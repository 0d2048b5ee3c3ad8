#pragma once
// --ranks N: the program starts itself under mpirun, or under what STAGES_MPIRUN names.

#include <string>
#include <vector>

#include "common/cli/program.hpp"
#include "common/harness/results.hpp"

namespace stages {

/// Why ranks cannot be started: MPI is not in this build, or mpirun cannot be found. Empty: they can.
std::string mpirun_problem();

/// Whether the ranks that --ranks asks for are still to be started. `wanted` holds its numbers; none: it was
/// not given. `are_started`: this process is one of them. Throws Error for more than one number, where there
/// are other ranks already, and where those that were started did not find each other.
bool are_to_be_started(const Program& program, const std::vector<int>& wanted, bool are_started);

/// Runs this command line on so many ranks, and returns the exit code. `file` is what they are to write; empty:
/// nothing. Throws Error if they cannot be started, end in another way than the program does, or left no file.
int run_on_ranks(const Program& program, int ranks, const std::string& file);

/// Runs `words`, a command line of `run`, on so many ranks, shows nothing of it, and returns the results. For
/// who has LastWords that call end_ranks(). Throws Error as above.
Results results_on_ranks(std::vector<std::string> words, int ranks);

/// For another thread, before the process ends: tells the ranks that run to end, and waits until they have.
void end_ranks();

}  // namespace stages
