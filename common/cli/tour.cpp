#include "common/cli/tour.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "common/cli/machines/child.hpp"
#include "common/cli/pattern.hpp"
#include "common/cli/start_ranks.hpp"
#include "common/matrix/embedded_table.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/processors.hpp"

namespace stages {

extern const std::string_view tour_text;  // data/tour.tsv, embedded by CMake

namespace {

constexpr const char* kFile = "data/tour.tsv";
constexpr std::string_view kVendor = "vendor";

/// Keeps of `names` what `chosen` holds; an empty choice keeps all.
void keep(std::vector<std::string>& names, const std::vector<std::string>& chosen) {
  std::erase_if(names, [&](const std::string& name) { return !among(chosen, name); });
}

/// Those of the steps that this program has, by their full names; vendor libraries stay last.
std::vector<std::string> steps_here(const Program& program, const std::vector<std::string>& numbers) {
  std::vector<std::string> out;
  for (const Entry& entry : program.registry.entries()) {
    const std::string_view step = entry.stage();
    const bool named = !numbers.empty() && (among(numbers, step) || among(numbers, number_of(step)));
    if (named && (out.empty() || out.back() != step)) out.emplace_back(step);
  }
  return out;
}

bool only_vendor(const std::vector<std::string>& steps) {
  return std::all_of(steps.begin(), steps.end(), [](const auto& s) { return s == kVendor; });
}

/// The words of a line of the tour without those that choose entries and ranks; these are said anew.
std::vector<std::string> problem_words(std::string_view text) {
  std::vector<std::string> out;
  const std::vector<std::string> words = words_in(text);
  for (std::size_t k = 0; k + 1 < words.size(); k += 2) {  // each option has one value
    if (!among({"--op", "--stage", "--filter", "--ranks"}, words[k]))
      out.insert(out.end(), {words[k], words[k + 1]});
  }
  return out;
}

/// The entries of `part` that --filter leaves, too. None is no error: other parts may have some.
std::vector<const Entry*> entries_of(const Program& program, const RunArguments& part,
                                     const RunArguments& given) {
  std::vector<const Entry*> entries = chosen_entries(program, part);
  if (given.filter.empty()) return entries;
  const Pattern filter("--filter", given.filter);
  std::erase_if(entries, [&](const Entry* e) { return !filter.found_in(e->name); });
  return entries;
}

/// The part that a line of the tour says, as far as this program has its steps and the user wants them.
/// Without entries where nothing is left.
Part part_of(const Program& program, const RunArguments& given, std::string_view words) {
  Part part;
  part.arguments = parse_run_words(words_in(words));
  part.arguments.effort = given.effort;
  std::vector<std::string>& steps = part.arguments.stages;
  std::vector<std::string>& ops = part.arguments.ops;
  steps = steps_here(program, steps);
  keep(steps, chosen_stages(program, given.stages));
  keep(ops, given.ops);
  if (only_vendor(steps) || ops.empty()) return part;
  std::vector<int>& ranks = part.arguments.problem.ranks;
  std::erase_if(ranks, [](int n) { return n > std::max(2, available_processors()); });
  part.entries = entries_of(program, part.arguments, given);
  // Entries for ranks have a part of their own.
  std::erase_if(part.entries, [&](const Entry* e) { return e->needs.mpi && ranks.empty(); });
  if (part.entries.empty()) return part;

  std::vector<std::string> names;
  for (const Entry* const entry : part.entries) names.push_back(entry->name);
  part.words = {"run"};
  const std::vector<std::string> problem = problem_words(words), effort = effort_words(given.effort);
  part.words.insert(part.words.end(), problem.begin(), problem.end());
  part.words.insert(part.words.end(), {"--op", fmt::format("{}", fmt::join(ops, ",")), "--stage",
                                       fmt::format("{}", fmt::join(steps, ",")), "--filter",
                                       fmt::format("^({})$", fmt::join(names, "|"))});
  part.words.insert(part.words.end(), effort.begin(), effort.end());
  if (!ranks.empty()) part.missing = mpirun_problem();
  if (part.missing.empty()) part.jobs = jobs_of(part.arguments);
  return part;
}

/// Lines for the steps of which the tour knows nothing: a reader's own.
std::vector<std::string> lines_of_own_steps(const Program& program, const std::vector<std::string>& known,
                                            bool gpu) {
  std::vector<std::string> lines;
  std::string_view before;
  for (const Entry& entry : program.registry.entries()) {
    const std::string_view step = entry.stage();
    if (step == before || entry.is_vendor() || (!known.empty() && among(known, step))) continue;
    before = step;
    lines.push_back(fmt::format("-m {} --op {} --stage {}",
                                gpu || !entry.needs.gpu ? "data:fem" : "gen:fem:nx=4", to_string(entry.op),
                                step));
  }
  return lines;
}

/// Whether a row is of the part's first problem: the one that the table of steps shows.
bool is_shown(const ResultRow& row, const Part& part) {
  const ProblemOptions& problem = part.arguments.problem;
  if (row.problem.matrix != part.arguments.matrices.front() ||
      to_string(row.problem.op) != part.arguments.ops.front())
    return false;
  const std::string mode = problem.mode == "single" ? "" : problem.mode;
  return row.problem.op != Op::spmv || row.problem.options.substr(0, row.problem.options.find(' ')) == mode;
}

}  // namespace

bool need_gpus_on_ranks(const std::vector<Part>& parts) {
  return std::ranges::any_of(parts, [](const Part& part) {
    return std::ranges::any_of(part.entries, [](const Entry* e) { return e->needs.mpi && e->needs.gpu; });
  });
}

std::size_t count_runs(const std::vector<Part>& parts) {
  std::size_t count = 0;
  for (const Part& part : parts) {
    const ProblemOptions& asked = part.arguments.problem;
    for (const Job& job : part.jobs)
      for (const Op op : job.ops)
        count += of_operation(part.entries, op).size() * (op == Op::spmm     ? asked.n_cols.size()
                                                          : op == Op::spgemm ? asked.destinations.size()
                                                                             : 1);
  }
  return count;
}

void require_tour(const RunArguments& arguments, const Ranks& ranks) {
  if (ranks.started())
    fail(
        "without -m a run shows every step and starts ranks itself; leave mpirun away, or name matrices "
        "with -m");
  if (!(arguments.problem == ProblemOptions()) || !arguments.set.empty())
    fail(
        "without -m a run shows every step on a matrix that suits it; options that say what to multiply (-b, "
        "--set, --n-cols, --mode, --ranks and their like) go with -m, as in -m data:fem, or -m data:all for "
        "the "
        "whole built-in set");
}

Effort tour_effort(const Effort& given) {
  Effort effort = given;
  effort.quick = true;
  if (!effort.time_budget) effort.time_budget = 0.1;
  if (!effort.max_noise_percent) effort.max_noise_percent = 5;
  if (!effort.max_work) effort.max_work = 2e9;
  return effort;
}

std::vector<Part> tour_parts(const Program& program, const RunArguments& given, bool gpu) {
  std::vector<std::string> lines, known;
  for (const auto& [where, words] : table_rows<2>(tour_text, kFile)) {
    const std::vector<std::string> steps = steps_here(program, parse_run_words(words_in(words)).stages);
    known.insert(known.end(), steps.begin(), steps.end());
    if (where == "all" || where == (gpu ? "gpu" : "executor")) lines.emplace_back(words);
  }
  for (std::string& line : lines_of_own_steps(program, known, gpu)) lines.push_back(std::move(line));
  std::vector<Part> parts;
  for (const std::string& line : lines) {
    Part part = part_of(program, given, line);
    if (!part.entries.empty()) parts.push_back(std::move(part));
  }
  if (parts.empty())
    fail(
        "the look at every step has nothing that --op, --stage and --filter leave; name a matrix with -m, or "
        "see `{} list`",
        program.name);
  for (Part& part : parts) {  // these run later, on their ranks
    if (!part.arguments.problem.ranks.empty())
      std::erase_if(part.entries, [](const Entry* e) { return e->needs.mpi; });
  }
  return parts;
}

std::vector<StepLine> tour_lines(const Program& program, const std::vector<Part>& parts,
                                 const Results& results) {
  std::vector<StepLine> lines;
  for (const Part& part : parts) {
    for (const std::string& step : part.arguments.stages) {
      if (std::ranges::count(lines, step, &StepLine::step) > 0 || step == kVendor) continue;
      std::vector<const ResultRow*> rows;
      for (const ResultRow& row : results.rows)
        if (row.entry.starts_with(step + "/") && is_shown(row, part)) rows.push_back(&row);
      if (rows.empty() && part.missing.empty()) continue;  // only vendor libraries are left
      lines.push_back(part.missing.empty() ? step_line(step, rows)
                                           : StepLine{.step = step, .missing = part.missing});
    }
  }
  for (const LeftOut& left : program.left_out)
    if (!left.name.starts_with("vendor"))
      lines.push_back({.step = left.name, .missing = "left out of this build: it needs " + left.needs});
  std::ranges::sort(lines, {}, &StepLine::step);
  return lines;
}

}  // namespace stages
