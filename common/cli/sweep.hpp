#pragma once
// stages run --ranks 1,2,4: the program starts itself under mpirun, once for each number of ranks, and puts
// the results together.

#include <string>
#include <vector>

#include "common/harness/results.hpp"

namespace stages {

/// What a sweep is to do.
struct Sweep {
  std::vector<int> ranks;  ///< ascending, each at least 1
  /// The command line for one number of ranks, without the program's name, and without a place for results.
  std::vector<std::vector<std::string>> arguments;
};

/// Throws Error where ranks cannot be started: MPI is not in this build, or mpirun cannot be found.
void require_mpirun();

/// Runs each command line on its number of ranks and appends its rows to `results`, in the order of problems
/// and then of ranks. What is special about each run goes into the context as "ranks=N: KEY". Throws Error if
/// a run ends without results.
void sweep(const Sweep& wanted, Results& results);

/// `text` for n ranks, in weak scaling: each number that is followed by xR is multiplied by n, as in
/// gen:uniform:rows=1e5xR. `scaled` becomes true if there was one.
std::string scaled_spec(const std::string& text, int ranks, bool& scaled);

}  // namespace stages
