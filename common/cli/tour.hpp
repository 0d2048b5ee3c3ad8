#pragma once
// The tour: what `stages run` does where no matrix is named. It shows every step on a matrix that suits the
// machine, as data/tour.tsv says, and ends with a table of the steps.

#include <string>
#include <vector>

#include "common/cli/run_choice.hpp"
#include "common/harness/steps.hpp"

namespace stages {

/// Part of a run: some entries on some matrices.
struct Part {
  RunArguments arguments;
  /// Of entries for ranks that are to be started: the command line that says the same, beginning with `run`.
  std::vector<std::string> words;
  std::vector<const Entry*> entries;
  std::vector<Job> jobs;
  std::string missing = {};  ///< why it cannot be done here; then there are no jobs
};

/// Throws Error for options that say what to multiply: a tour has problems of its own.
void require_tour(const RunArguments& arguments, const Ranks& ranks);

/// The parts that this program has entries for, and that --op, --stage and --filter leave. `gpu`: kernels run
/// on a real GPU. Throws Error where there are none.
std::vector<Part> tour_parts(const Program& program, const RunArguments& given, bool gpu);

/// What the steps of a tour found out: a line for each step of the course, also for those that were left out.
std::vector<StepLine> tour_lines(const Program& program, const std::vector<Part>& parts,
                                 const Results& results);

}  // namespace stages
