#pragma once
// What a run is to do: which entries on which matrices.

#include <optional>
#include <string>
#include <vector>

#include "common/cli/program.hpp"
#include "common/cli/run_options.hpp"

namespace stages {

/// A matrix and what is to be done with it.
struct Job {
  std::string name;  ///< as the user gave it
  std::string b;     ///< the other matrix of SpGEMM; empty: A squared
  std::vector<Op> ops;
  bool from_set = false;  ///< it is here because of data:all
};

/// Whether the name is among those chosen; where none is, all are.
bool among(const std::vector<std::string>& chosen, std::string_view name);

/// "05" of "05_cuda_csr".
std::string_view number_of(std::string_view step);

/// The whole names of the steps that --stage names. Throws Error for one that is not there.
std::vector<std::string> chosen_stages(const Program& program, const std::vector<std::string>& wanted);

/// Those of one operation; of these, with `mpi`, those that run on the ranks of MPI, or the others.
std::vector<const Entry*> of_operation(std::vector<const Entry*> entries, Op op,
                                       std::optional<bool> mpi = std::nullopt);

/// The rows of these operations before they are run, on so many ranks.
std::vector<ResultRow> blank_rows(const std::vector<const Entry*>& entries, const ProblemFacts& facts,
                                  const std::vector<Op>& ops, int ranks);

/// Throws Error where an option is given that only another operation than those of the run knows.
void require_effect(const RunArguments& arguments);

/// The entries that --op, --stage and --filter leave, in course order, and behind each those that --set makes
/// of it. Throws Error where none is left, and for a --set of another entry.
std::vector<const Entry*> chosen_entries(const Program& program, const RunArguments& arguments);

/// What -m, -b and --op ask for; of the built-in set each matrix with the operations it is meant for. Throws
/// Error where a header tells that a matrix cannot be had, or that it cannot be multiplied so.
std::vector<Job> jobs_of(const RunArguments& arguments);

}  // namespace stages
