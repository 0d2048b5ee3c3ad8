#include "common/cli/run_options.hpp"

#include <cmath>
#include <limits>

#include "common/cli/machines/child.hpp"
#include "common/harness/problem.hpp"
#include "common/matrix/error.hpp"

namespace stages {
namespace {

/// 4e9, where {:g} says 4e+09.
std::string short_number(double value) {
  std::string text = fmt::format("{:g}", value);
  if (const std::size_t plus = text.find("e+"); plus != std::string::npos)
    text.erase(plus + 1, text[plus + 2] == '0' ? 2 : 1);
  return text;
}

void require_f32(const char* flag, double value) {
  constexpr float kMost = std::numeric_limits<float>::max();
  if (std::abs(value) > static_cast<double>(kMost))
    fail("{} {}: f32 ends at {:.2g}; take --type f64 or a smaller number", flag, value, kMost);
}

void add_choice_options(Command& command, RunArguments& a) {
  command.heading("What to run");
  command.option("-m,--matrix", a.matrices,
                 "Matrices: Matrix Market files (.mtx, .mtx.gz), gen:SPEC or data:NAME; data:all is the "
                 "built-in set; without it a look at every step",
                 {.type = "MATRIX .."});
  command.option("-b,--matrix-b", a.problem.b,
                 "The matrix that SpGEMM multiplies each -m by; without it A by itself, or a "
                 "rectangular A by its transpose, on the side where that is cheaper",
                 {.type = "MATRIX", .not_empty = true});
  command.option("--op", a.ops, "Operations: spmv, spmm, spgemm (several with commas); default all",
                 {.type = "OP,..", .one_of = names_in(kOps), .commas = true});
  command.option("--stage", a.stages, "Only these stages, by number or name; vendor for the vendor libraries",
                 {.type = "01,03", .commas = true});
  command.option("--filter", a.filter, "Only entries whose name matches", {.type = "REGEX"});
  command.option(
      "--set", a.set,
      "Run an entry also with each of these values of a parameter (`list --parameters` shows them), "
      "as in 07_spmm/split_rows:chunk=64,128; of two parameters in one --set with every pair, as in "
      "07_spmm/merged_short_rows:chunk=64,128,rows=1,2",
      {.type = "ENTRY:NAME=VALUE,.."});
  command.option("--rules", a.rules, "Choose by the rules of this file, which tools/fit-rules.sh made",
                 {.type = "FILE", .not_empty = true});
}

void add_problem_options(Command& command, ProblemOptions& a) {
  command.heading("The problem");
  command.option("--n-cols", a.n_cols, "SpMM: columns of B (several with commas)",
                 {.type = "N,..", .default_text = "32", .least = 1, .most = 1 << 20, .commas = true});
  command.option("--alpha", a.alpha, "SpMM: C = alpha A B + beta C", {.type = "X", .shows_default = true});
  command.option("--beta", a.beta, "SpMM: see --alpha", {.type = "X", .shows_default = true});
  command.option("--layout", a.layout, "SpMM: B and C stored by rows (row) or by columns (col)",
                 {.one_of = {"row", "col"}, .shows_default = true});
  command.option("--mode", a.mode,
                 "A single product; SpMV: a stream of independent vectors; SpMV or SpGEMM: a chain in which "
                 "each product needs the one before it (C = A B, C B, ...)",
                 {.type = "MODE", .one_of = names_in(kModes), .shows_default = true});
  command.option("--products", a.products,
                 fmt::format("Products in a stream or chain [SpMV: {}, or as many as the limits allow; "
                             "SpGEMM: {}]",
                             kDefaultProducts, kDefaultRounds),
                 {.type = "K", .least = 1, .most = 1 << 24});
  command.option(
      "--destination", a.destinations,
      "SpGEMM on several ranks: C on rank 0's host, left distributed, or on rank 0's GPU (several "
      "with commas)",
      {.type = "PLACE,..", .default_text = "host", .one_of = names_in(kDestinations), .commas = true});
}

void add_rank_options(Command& command, ProblemOptions& a) {
  command.heading("Several processes");
  command.option("--ranks", a.ranks,
                 "Start this on so many ranks, by mpirun; tools/ranks.sh does so on several numbers in turn",
                 {.type = "N", .least = 1, .most = 4096, .commas = true});
  command.flag("--ranks-started", a.ranks_started, "This is one of the ranks that --ranks has started",
               {.hidden = true});
  command.flag("--weak", a.weak, "Sizes written with xR, as in rows=1e5xR, grow with the ranks");
  command.flag("--ranks-only", a.ranks_only, "On ranks leave out the entries for one process");
}

void add_effort_options(Command& command, Effort& a) {
  command.heading("How long and how much", &a.words);
  const RunOptions defaults;
  command.flag(
      "--quick", a.quick,
      "A look: few samples, low limits; of large results a smaller part is compared element by element");
  command.option("--max-noise", a.max_noise_percent,
                 fmt::format("Stop sampling when the median is known to this many percent [{:g}]",
                             100 * defaults.max_noise),
                 {.type = "PCT", .positive = true});
  command.option("--time-budget", a.time_budget,
                 fmt::format("Seconds of samples for an entry on a problem [{:g}]", defaults.time_budget),
                 {.type = "S", .not_negative = true});
  command.option("--max-memory", a.max_memory_gb, "Skip entries that need more memory [half of what is free]",
                 {.type = "GB", .positive = true});
  command.option(
      "--max-work", a.max_work,
      fmt::format("Skip entries that take more elementary steps a run [{}; on the executor at most {}]",
                  short_number(defaults.max_work), short_number(defaults.max_simulated_work)),
      {.type = "N", .positive = true});
  command.option(
      "--max-seconds", a.max_seconds,
      fmt::format("Skip entries that take longer for one run, which the first run shows [no limit], or for "
                  "their check on the executor [{:g}]",
                  defaults.max_simulated_seconds),
      {.type = "S", .positive = true});
  command.option(
      "--require-clock", a.least_clock_mhz,
      "Take samples again while the GPU's SM clock is lower, and skip entries for which it stays so; an "
      "error where no clock is known",
      {.type = "MHZ", .positive = true});
  command.option(
      "--cache", a.cache,
      "hot: data of the run before may be in the caches; cold: they are flushed before each sample",
      {.one_of = {"hot", "cold"}, .shows_default = true});
  command.option("--check", a.check,
                 "full: four runs with real values and one with integers before timing; once: only what the "
                 "timed runs leave, for large problems of entries that were checked on smaller ones",
                 {.one_of = {"full", "once"}, .shows_default = true});
  command.option("--launch", a.launch,
                 "Kernels of a timed run go to the GPU one by one (single), or as a replayed CUDA graph",
                 {.one_of = {"single", "graph"}, .shows_default = true});
  command.option("--seed", a.seed, "Seed of the operands and of the rows that the check samples",
                 {.type = "N", .shows_default = true});
}

}  // namespace

void add_run_options(Command& command, RunArguments& arguments) {
  add_choice_options(command, arguments);
  add_problem_options(command, arguments.problem);
  command.heading("The problem", &arguments.effort.words);
  add_type_option(command, arguments.effort.type, "Type of the values");
  add_effort_options(command, arguments.effort);
  add_rank_options(command, arguments.problem);
  command.heading("Results");
  command.option("--json", arguments.json, "Write everything that was found out to this file",
                 {.type = "FILE", .not_empty = true});
  command.option("--csv", arguments.csv, "Write one line a result to this file",
                 {.type = "FILE", .not_empty = true});
  command.option("--metrics", arguments.metrics,
                 "Show also these figures of entries' own, which --json has, as columns: tasks,packed_bytes",
                 {.type = "NAME,..", .commas = true});
  command.flag("--append", arguments.append, "Keep the results that the file of --json has, and add these");
  command.flag("--all", arguments.all,
               "Show every skipped entry with its reason, not only how many there are");
  add_input_options(command, arguments.input);
}

RunOptions run_options(const Effort& effort) {
  RunOptions options;
  if (effort.quick) {
    options.max_noise = 0.2;
    options.time_budget = 0.02;
    options.min_samples = 3;
    options.spread = 0;
    options.max_samples = 20;
    options.max_work = 2e7;
    options.max_simulated_seconds = 10;
    options.check.budget = 2'000'000;
  }
  if (effort.max_noise_percent) options.max_noise = *effort.max_noise_percent / 100;
  if (effort.time_budget) options.time_budget = *effort.time_budget;
  if (effort.max_memory_gb) options.max_memory = *effort.max_memory_gb * 1e9;
  if (effort.max_work) options.max_work = *effort.max_work;
  if (effort.max_seconds) options.max_seconds = options.max_simulated_seconds = *effort.max_seconds;
  if (effort.least_clock_mhz) options.least_clock_mhz = *effort.least_clock_mhz;
  options.cold = effort.cache == "cold";
  options.check_once = effort.check == "once";
  options.check.seed = effort.seed;
  return options;
}

RunArguments parse_run(const std::string& line) {
  RunArguments arguments;
  CommandLine parser("stages", "", {}, "");
  Command command = parser.add("run", "");
  add_run_options(command, arguments);
  parser.parse(words_in("run " + line));
  return arguments;
}

void require_sense(const RunArguments& arguments) {
  if (arguments.problem.mode == "single" && arguments.problem.products.value_or(1) != 1)
    fail("--products {}: a single product is one; give --mode stream or --mode chain with it",
         *arguments.problem.products);
  if (arguments.effort.type == "f32") {
    require_f32("--alpha", arguments.problem.alpha);
    require_f32("--beta", arguments.problem.beta);
  }
  if (arguments.append && arguments.json.empty())
    fail("--append goes with --json FILE, which has the results to add to");
  std::vector<std::string> read = arguments.matrices;
  read.push_back(arguments.problem.b);
  require_two_files(arguments.json, "--csv", arguments.csv, read);
}

}  // namespace stages
