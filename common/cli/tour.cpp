#include "common/cli/tour.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "common/cli/machines/child.hpp"
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
std::vector<std::string> steps_here(const Program& program, const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const Entry& entry : program.registry.entries()) {
    const auto is_its = [&](const std::string& name) { return is_named(entry.stage(), name); };
    if ((out.empty() || out.back() != entry.stage()) && std::ranges::any_of(names, is_its))
      out.emplace_back(entry.stage());
  }
  return out;
}

/// A line of the tour: what of a command line says what is multiplied, and by which entries.
struct Line {
  std::string problem, entries;
};

/// The limits of a tour are those of a look; what the user says of them counts more.
std::string effort_of_tour(const Effort& given) {
  std::string words = fmt::format("{}", fmt::join(given.words, " "));
  if (!given.quick) words += " --quick";
  if (!given.time_budget) words += " --time-budget=0.1";
  if (!given.max_noise_percent) words += " --max-noise=5";
  if (!given.max_work) words += " --max-work=2e9";
  return words;
}

/// The part that a line of the tour says, as far as this program has its steps and the user wants them.
/// Nothing where nothing is left.
std::optional<Part> part_of(const Program& program, const RunArguments& given, const Line& line) {
  const std::string problem = line.problem + " " + effort_of_tour(given.effort);
  Part part;
  part.arguments = parse_run(problem + " " + line.entries);
  std::vector<std::string>& steps = part.arguments.stages;
  std::vector<std::string>& ops = part.arguments.ops;
  steps = steps_here(program, steps);
  keep(steps, chosen_stages(program, given.stages));
  keep(ops, given.ops);
  const bool only_vendor = std::ranges::all_of(steps, [](const auto& step) { return step == kVendor; });
  if (only_vendor || ops.empty()) return std::nullopt;
  std::vector<int>& ranks = part.arguments.problem.ranks;
  std::erase_if(ranks, [](int n) { return n > std::max(2, available_processors()); });
  part.entries = chosen_entries(program, part.arguments);
  keep_matching(part.entries, given.filter);  // none is no error: other parts may have some
  // Entries for ranks have a part of their own.
  std::erase_if(part.entries, [&](const Entry* e) { return e->needs.mpi && ranks.empty(); });
  if (part.entries.empty()) return std::nullopt;
  if (!ranks.empty()) part.missing = mpirun_problem();
  if (!part.missing.empty()) return part;
  part.jobs = jobs_of(part.arguments);
  if (ranks.empty()) return part;
  std::vector<std::string> names;
  for (const Entry* const entry : part.entries) names.push_back(entry->name);
  part.words = words_in(fmt::format("run {} --op {} --stage {} --filter ^({})$", problem, fmt::join(ops, ","),
                                    fmt::join(steps, ","), fmt::join(names, "|")));
  // These run later, on their ranks.
  std::erase_if(part.entries, [](const Entry* e) { return e->needs.mpi; });
  return part;
}

/// Lines for the steps of which the tour knows nothing: a reader's own.
std::vector<Line> lines_of_own_steps(const Program& program, const std::vector<std::string>& known,
                                     bool gpu) {
  std::vector<Line> lines;
  std::string_view before;
  for (const Entry& entry : program.registry.entries()) {
    const std::string_view step = entry.stage();
    if (step == before || entry.is_vendor() || (!known.empty() && among(known, step))) continue;
    before = step;
    lines.push_back({gpu || !entry.needs.gpu ? "-m data:fem" : "-m gen:fem:nx=4",
                     fmt::format("--op {} --stage {}", to_string(entry.op), step)});
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

void require_tour(const RunArguments& arguments, const Ranks& ranks) {
  if (ranks.started())
    fail(
        "without -m a run shows every step and starts ranks itself; leave mpirun away, or name matrices "
        "with -m");
  const ReadOptions& input = arguments.input;
  if (arguments.problem != ProblemOptions() || !arguments.set.empty() || input.index_base != 1 ||
      input.drop_out_of_range)
    fail(
        "without -m a run shows every step on a matrix that suits it; options that say what to multiply (-b, "
        "--set, --n-cols, --mode, --ranks and their like) go with -m, as in -m data:fem, or -m data:all for "
        "the whole built-in set");
}

std::vector<Part> tour_parts(const Program& program, const RunArguments& given, bool gpu) {
  std::vector<Line> lines;
  std::vector<std::string> known;
  for (const auto& [where, problem, entries] : table_rows<3>(tour_text, kFile)) {
    const Line line{std::string(problem), std::string(entries)};
    const std::vector<std::string> steps = steps_here(program, parse_run(line.entries).stages);
    known.insert(known.end(), steps.begin(), steps.end());
    if (where == "all" || where == (gpu ? "gpu" : "executor")) lines.push_back(line);
  }
  for (Line& line : lines_of_own_steps(program, known, gpu)) lines.push_back(std::move(line));
  std::vector<Part> parts;
  for (const Line& line : lines)
    if (std::optional<Part> part = part_of(program, given, line)) parts.push_back(std::move(*part));
  if (parts.empty())
    fail(
        "the look at every step has nothing that --op, --stage and --filter leave; name a matrix with -m, or "
        "see `{} list`",
        program.name);
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
