#pragma once
// What the command line of `stages run` says.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/cli/inputs.hpp"
#include "common/cli/options.hpp"
#include "common/harness/runner.hpp"

namespace stages {

/// How long and how much.
struct Effort {
  std::string type = "f32";
  bool quick = false;
  std::optional<double> max_noise_percent, time_budget;
  std::optional<double> max_memory_gb, max_work, max_seconds, least_clock_mhz;
  std::string cache = "hot";
  std::string check = "full";
  std::string launch = "single";
  std::uint64_t seed = 1;
  std::vector<std::string> words;  ///< what the command line says of all that
};

/// What is multiplied beside A, and how.
struct ProblemOptions {
  std::string b;
  std::vector<int> n_cols = {32};
  double alpha = 1, beta = 0;
  std::string layout = "row";
  std::string mode = "single";
  std::optional<int> products;
  std::vector<std::string> destinations = {"host"};
  std::vector<int> ranks;  ///< in a line of the tour several; elsewhere one
  bool weak = false, ranks_only = false, ranks_started = false;

  bool operator==(const ProblemOptions&) const = default;
};

struct RunArguments {
  std::vector<std::string> matrices, ops, stages;
  std::string filter;
  std::vector<std::string> set;      ///< ENTRY:NAME=VALUE,..
  std::string rules;                 ///< file of rules; empty: the built-in ones
  std::vector<std::string> metrics;  ///< to be columns of the table
  ProblemOptions problem;
  ReadOptions input;
  Effort effort;
  std::string json, csv;
  bool append = false;  ///< to what the file of `json` has
  bool all = false;     ///< show skipped rows, too
};

/// Vectors in stream and chain mode, unless --products says otherwise or the limits allow fewer.
inline constexpr int kDefaultProducts = 100;
/// Products in a chain of SpGEMM, unless --products says otherwise.
inline constexpr int kDefaultRounds = 4;

void add_run_options(Command& command, RunArguments& arguments);

/// The limits of the runner. --quick is for a look, and for tests.
RunOptions run_options(const Effort& effort);

/// The arguments that a line gives whose words are behind `run`. Throws Error as the command does.
RunArguments parse_run(const std::string& line);

/// Throws Error for options that contradict each other, and for results that cannot be written.
void require_sense(const RunArguments& arguments);

}  // namespace stages
