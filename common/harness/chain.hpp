#pragma once
// SpGEMM in a chain: C_1 = A B, C_2 = C_1 B, and so on. The C of a round is the next round's A, where it lies
// (Plan::advance): nothing is fetched, dealt or prepared between two rounds unless the plan itself does it.
//
// Each round is a row of its own, whose problem is the product of that round, with the A that it has. A round
// that a limit or the entry itself rules out is the entry's last row, with the reason.

#include <span>

#include "common/harness/runner.hpp"

namespace stages {

/// run_problem for a problem of several rounds. Every round is checked as a product of what the round before it
/// has left; then all entries are timed, in turn, each from A on through all of its rounds.
template <class T>
void run_chain(const SpgemmProblem<T>& problem, std::span<const Entry* const> entries, const Machine& machine,
               const RunOptions& options, const RunEvents& events, Results& results);

}  // namespace stages
