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

/// Whether a step such as "05_cuda_csr" is named by this: wholly, or by its number.
bool is_named(std::string_view step, std::string_view name);

/// The whole names of the steps that --stage names. Throws Error for one that is not there.
std::vector<std::string> chosen_stages(const Program& program, const std::vector<std::string>& wanted);

/// Those of one operation; of these, with `mpi`, those that run on the ranks of MPI, or the others.
std::vector<const Entry*> of_operation(std::vector<const Entry*> entries, Op op,
                                       std::optional<bool> mpi = std::nullopt);

/// Throws Error where an option is given that only another operation than those of the run knows.
void require_effect(const RunArguments& arguments);

/// Leaves of the entries those in whose name --filter, a regular expression of POSIX (extended), finds a match;
/// empty: all. Throws Error for what is none, or would take very long or much memory. Not std::regex, which
/// takes seconds to compile, recurses for each character and can be made to run for ever.
void keep_matching(std::vector<const Entry*>& entries, const std::string& filter);

/// The entries that --op, --stage and --filter leave, in course order, and behind each those that --set makes
/// of it. Throws Error where none is left, and for a --set of another entry.
std::vector<const Entry*> chosen_entries(const Program& program, const RunArguments& arguments);

/// What -m, -b and --op ask for; of the built-in set each matrix with the operations it is meant for. Throws
/// Error where a header tells that a matrix cannot be had, or that it cannot be multiplied so.
std::vector<Job> jobs_of(const RunArguments& arguments);

}  // namespace stages
