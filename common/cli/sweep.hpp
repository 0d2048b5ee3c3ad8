#pragma once
// --ranks: the program starts itself under mpirun. `stages run --ranks 1,2,4` does so once for each number of
// ranks, and puts the results together.

#include <functional>
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
/// about each run goes into the context as "ranks=N: KEY". `after_each` is called after each run. Throws
/// Error if a run ends without results, or before its end; `results` then has what there was.
void sweep_ranks(const std::vector<std::string>& words, const ProblemOptions& problem, Results& results,
                 const std::function<void()>& after_each);

/// For another thread, before the process ends: ends the run on ranks that is under way, and waits until
/// `results` have what it left and `after_each` was called. sweep_ranks does not return then.
void end_ranks();

/// On rank 0 of what --ranks has started: tells the process that waits, by a file in `directory` (what
/// --report-to says; empty: nobody waits), that the ranks are there, and that the work of `multiply` is done.
void tell_started(const std::string& directory);
void tell_done(const std::string& directory);

/// Runs `words` the same way, a command line of `multiply`, on `ranks` ranks, with what they print. Returns
/// the exit code. Throws Error if they cannot be started, or do not end by themselves.
int multiply_on_ranks(const std::vector<std::string>& words, int ranks);

}  // namespace stages
