#pragma once
// The table of steps: each step's plainest and best entry on one matrix, and what records say of the two.

#include <span>
#include <string>
#include <string_view>

#include "common/harness/results.hpp"

namespace stages {

/// An entry's time in a record under results/, as data/records.tsv (by tools/tables.py) holds it.
struct RecordedTime {
  std::string_view entry;            ///< with its step: "01_cpu_serial/two_pointer_dot"
  double seconds = 0;                ///< median of one product
  std::string_view problem;          ///< what was multiplied, in short
  std::string_view machine;          ///< "H200"
  std::string_view matrix, options;  ///< of the problem, as results name them
};

/// All of them, in the order of the course. Throws Error, naming the line, if the embedded text is malformed.
std::span<const RecordedTime> recorded_times();
/// That of an entry on this very problem; null: there is none.
const RecordedTime* exact_record(std::string_view entry, const ProblemFacts& problem);

/// The line of `step` from the rows that belong to it, which are of one problem (but for the ranks). The best
/// entry is the fastest; where nothing is timed, the one that the records have as the fastest.
StepLine step_line(std::string step, std::span<const ResultRow* const> rows);

/// The table for people. Empty without lines.
std::string to_step_table(std::span<const StepLine> lines, bool colour);

}  // namespace stages
