// Results back from their JSON: what a run on other ranks has written.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/harness/results.hpp"
#include "common/matrix/error.hpp"

namespace stages {
namespace {

using nlohmann::json;

/// null is `missing`: to_json writes what is not finite, and ratios that are not there, as null.
double number(const json& value, double missing) {
  return value.is_null() ? missing : value.get<double>();
}

/// The value of that name in the table: what this program does not know is never taken for another.
template <class E, std::size_t N>
E known(const std::array<Named<E>, N>& table, const char* what, const std::string& name) {
  if (const std::optional<E> value = value_named(table, name)) return *value;
  fail("the results hold {} '{}', which this program does not know; run all ranks by one build", what, name);
}

ProblemFacts problem_of(const json& p) {
  return {.matrix = p.at("matrix"),
          .options = p.at("options"),
          .op = known(kOps, "the operation", p.at("operation")),
          .type = p.at("type"),
          .rows = p.at("rows"),
          .cols = p.at("cols"),
          .nnz = p.at("nnz"),
          .result_cols = p.at("result_cols"),
          .products = p.at("products"),
          .multiplications = p.at("multiplications")};
}

void read_times(const json& in, ResultRow& row) {
  const json& seconds = in.at("seconds");
  row.prepare = seconds.at("prepare");
  row.load = seconds.at("load");
  row.fetch = seconds.at("fetch");
  for (const auto& [name, value] : seconds.at("phases").items()) row.phases.push_back({name, value});
  row.run = summarize(seconds.at("run").at("samples").get<std::vector<double>>());
  row.cost.operations = in.at("operations");
  row.cost.model_bytes = in.at("model_bytes");
  row.cost.memory = in.at("memory_bytes");
  row.result_nnz = in.at("result_nnz");
  row.gflops = in.at("gflops");
  row.bandwidth_share = in.at("bandwidth_share");
  row.speedup_previous = number(in.at("speedup_previous"), 0);
  row.speedup_peer = number(in.at("speedup_peer"), 0);
  row.speedup_serial = number(in.at("speedup_serial"), 0);
  row.break_even = number(in.at("break_even_products"), std::numeric_limits<double>::infinity());
}

ResultRow row_of(const json& in) {
  ResultRow row;
  row.problem = problem_of(in.at("problem"));
  row.entry = in.at("entry");
  row.idea = in.at("idea");
  row.peer = in.at("peer");
  row.structure_reuse = in.at("structure_reuse");
  row.status = known(kStatuses, "the status", in.at("status"));
  row.reason = in.at("reason");
  row.note = in.at("note");
  row.simulated = in.at("simulated");
  row.mpi = in.at("mpi");
  row.ranks = in.at("ranks");
  if (in.contains("check")) {
    const json& check = in.at("check");
    row.checked = true;
    row.check.rows = check.at("rows");
    row.check.rows_checked = check.at("rows_checked");
    row.check.sums = check.at("sums");
    row.check.not_judged = check.at("sums_not_judged");
    row.check.worst = number(check.at("worst_share_of_bound"), std::nan(""));
    if (!check.at("passed").get<bool>()) row.check.failure = row.reason;
  }
  if (in.contains("seconds")) read_times(in, row);
  for (const auto& [name, metric] : in.at("metrics").items())
    row.metrics.push_back({name, number(metric.at("value"), std::nan("")), metric.at("unit")});
  return row;
}

}  // namespace

Results results_from_json(const json& text) {
  Results results;
  for (const auto& [key, value] : text.at("context").items()) results.context.emplace_back(key, value);
  for (const json& row : text.at("results")) results.rows.push_back(row_of(row));
  return results;
}

}  // namespace stages
