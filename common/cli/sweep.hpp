#pragma once
// stages run --ranks 1,2,4: the program starts itself under mpirun, once for each number of ranks, and puts
// the results together.

#include <string>
#include <vector>

#include "common/cli/run_options.hpp"
#include "common/harness/results.hpp"

namespace stages {

/// Why ranks cannot be started: MPI is not in this build, or mpirun cannot be found. Empty: they can.
std::string mpirun_problem();

/// The same as an Error that names --ranks.
void require_mpirun();

/// Runs `words`, a command line without the program's name, once on each number of ranks that `problem`
/// names, and appends the rows to `results`, in the order of problems and then of ranks. What is special
/// about each run goes into the context as "ranks=N: KEY". Throws Error if a run ends without results.
void sweep_ranks(const std::vector<std::string>& words, const ProblemOptions& problem, Results& results);

}  // namespace stages
