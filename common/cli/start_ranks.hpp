#pragma once
// --ranks N: the program starts itself under mpirun, or under what STAGES_MPIRUN names.

#include <string>
#include <vector>

#include "common/cli/program.hpp"

namespace stages {

/// Why ranks cannot be started: MPI is not in this build, or mpirun cannot be found. Empty: they can.
std::string mpirun_problem();

/// Whether the ranks that --ranks asks for are still to be started. `wanted` holds its numbers; none: it was
/// not given. Throws Error for more than one number, and where there are other ranks already.
bool are_to_be_started(const Program& program, const std::vector<int>& wanted);

enum class Output { shown, dropped };

/// Runs this program with `words` on so many ranks, and returns its exit code. Throws Error if they cannot be
/// started, or end in another way than the program does. For who has LastWords that call end_ranks().
int run_on_ranks(const std::vector<std::string>& words, int ranks, Output output);

/// The same with this program's own words, and with LastWords. Throws Error, too, where `file`, which they are
/// to write, is not there in the end; empty: none.
int run_on_ranks(const Program& program, int ranks, const std::string& file);

/// For another thread, before the process ends: tells the ranks that run to end, and waits until they have.
void end_ranks();

}  // namespace stages
