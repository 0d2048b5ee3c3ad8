#include "common/cli/publish.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "common/cli/terminal.hpp"
#include "common/harness/steps.hpp"
#include "common/matrix/error.hpp"

namespace stages {
namespace {

void show(Results results, const RunArguments& arguments) {
  for (ResultRow& row : results.rows)
    for (std::string* const text : {&row.problem.matrix, &row.problem.options, &row.reason})
      *text = printable(*text);
  const bool colour = wants_colour(stdout);
  const std::string scaling = to_scaling_table(results, colour);
  fmt::print("{}{}{}", to_table(results, colour, arguments.all, arguments.metrics),
             scaling.empty() ? "" : "\n", scaling);
  const std::string steps = to_step_table(results.steps, colour);
  if (!steps.empty()) fmt::print("\n{}", steps);
}

/// Writes both files, also where one of them cannot be written; says why, or nothing.
std::string write_results(const RunArguments& arguments, const Results& results) {
  std::string failure;
  for (const auto& [path, text] :
       {std::pair{arguments.json, json_lines(to_json(results))}, {arguments.csv, to_csv(results)}}) {
    try {
      if (!path.empty()) write_file(path, text);
    } catch (const Error& error) {
      failure = error.what();
    }
  }
  return failure;
}

/// Throws Error where --metrics names what no entry that ran has.
void require_metrics(const std::vector<std::string>& wanted, const Results& results) {
  std::set<std::string> there;
  for (const ResultRow& row : results.rows)
    for (const Metric& metric : row.metrics) there.insert(metric.name);
  for (const std::string& name : wanted) {
    if (!there.contains(name))
      fail("--metrics {}: no entry that ran has it; {}", name,
           there.empty() ? "none has any" : fmt::format("there are {}", fmt::join(there, ", ")));
  }
}

/// What a run adds to; no rows: nothing.
Results earlier_results(const RunArguments& arguments, const Results& begun) {
  if (!arguments.append || !std::filesystem::exists(arguments.json)) return {};
  Results earlier = results_in(arguments.json);
  put_together(earlier, begun);  // throws where it cannot be
  return earlier;
}

}  // namespace

Publisher::Publisher(const RunArguments& arguments, const Results& begun)
    : arguments_(arguments), earlier_(earlier_results(arguments, begun)) {}

void Publisher::publish(Results results) const {
  if (!earlier_.rows.empty()) results = put_together(earlier_, results);
  relate_to_serial(results);
  const std::string failure = write_results(arguments_, results);
  show(results, arguments_);
  if (!failure.empty()) fail("{}", failure);
  require_metrics(arguments_.metrics, results);
}

void Publisher::publish_part(Results part, const std::string& what) const {
  const auto tells = [](const ResultRow& row) { return row.checked || row.status == Status::failed; };
  if (std::none_of(part.rows.begin(), part.rows.end(), tells)) return;
  try {
    publish(std::move(part));
    fmt::print("the run was ended by {}: this is a part\n", what);
    std::fflush(stdout);
  } catch (const std::exception& error) {
    print_stderr("{}\n", error.what());
  }
}

}  // namespace stages
