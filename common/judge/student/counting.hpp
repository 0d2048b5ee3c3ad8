#pragma once
// Counts what a plan's kernels do, where they were compiled for it: by the lens of the executor.

#include "common/harness/exec.hpp"
#include "common/harness/plan.hpp"
#include "common/judge/student/counts.hpp"

namespace stages::judge {

/// Whether this program can count.
bool can_count();

/// Runs the plan once; operands are loaded, and the result is reset. Throws Error where nothing can be counted.
template <class Problem>
Counts count(Plan<Problem>& plan, Exec& exec, const Problem& problem,
             const typename Problem::Operands& operands);

/// The same, looking for races.
template <class Problem>
RaceCounts look_for_races(Plan<Problem>& plan, Exec& exec);

}  // namespace stages::judge
