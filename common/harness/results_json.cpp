// Results as JSON and back: a file of a run, and what a run on other ranks has written.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/harness/results.hpp"
#include "common/matrix/error.hpp"

namespace stages {
namespace {

using nlohmann::json;

constexpr double kNever = std::numeric_limits<double>::infinity();

/// JSON has no infinity and no NaN: null stands for "never" and "unknown", and for the ratio that there is not.
json number(double value, double null) {
  return std::isfinite(value) && value != null ? json(value) : json(nullptr);
}
double number(const json& value, double null) { return value.is_null() ? null : value.get<double>(); }

/// Writes fields of an object.
struct Out {
  json& to;

  template <class T>
  void operator()(const char* name, const T& value) {
    to[name] = value;
  }
  void operator()(const char* name, double value, double null) { to[name] = number(value, null); }
  template <class Table, class E>
  void named(const char* name, const Table& table, E value) {
    to[name] = name_of(table, value);
  }
  Out inner(const char* name) { return {to[name]}; }
};

/// Reads them. What this program does not know is never taken for another.
struct In {
  const json& from;

  template <class T>
  void operator()(const char* name, T& value) {
    from.at(name).get_to(value);
  }
  void operator()(const char* name, double& value, double null) { value = number(from.at(name), null); }
  template <class Table, class E>
  void named(const char* name, const Table& table, E& value) {
    const auto word = from.at(name).get<std::string>();
    const std::optional<E> known = value_named(table, word);
    if (!known)
      fail("the results hold the {} '{}', which this program does not know; run all ranks by one build", name,
           word);
    value = *known;
  }
  In inner(const char* name) { return {from.at(name)}; }
};

/// What every row has.
template <class Io, class Row>
void pass_row(Io io, Row& row) {
  Io problem = io.inner("problem");
  auto& p = row.problem;
  problem("matrix", p.matrix);
  problem("options", p.options);
  problem.named("operation", kOps, p.op);
  problem("type", p.type);
  problem("rows", p.rows);
  problem("cols", p.cols);
  problem("nnz", p.nnz);
  problem("result_cols", p.result_cols);
  problem("products", p.n_vectors);
  problem("multiplications", p.multiplications);
  io("entry", row.entry);
  io("idea", row.idea);
  io("previous", row.previous);
  io("peer", row.vendor);  // the files of all versions, and those of CSV, call vendor libraries so
  io("structure_reuse", row.structure_reuse);
  io.named("status", kStatuses, row.status);
  io("reason", row.reason);
  io("note", row.note);
  io("simulated", row.simulated);
  io("mpi", row.mpi);
  io("ranks", row.ranks);
}

template <class Io, class Report>
void pass_check(Io io, Report& check) {
  io("rows", check.rows);
  io("rows_checked", check.rows_checked);
  io("sums", check.sums);
  io("sums_not_judged", check.not_judged);
  io("worst_share_of_bound", check.worst, std::nan(""));
}

template <class Io, class Of>
void pass_summary(Io io, Of& of) {
  io("median", of.median);
  io("q1", of.q1);
  io("q3", of.q3);
  io("min", of.min);
  io("max", of.max);
  io("noise", of.noise, kNever);
  io("samples", of.samples);
  io("processes", of.processes);
}

template <class Io, class Row>
void pass_times(Io io, Row& row) {
  Io seconds = io.inner("seconds");
  seconds("prepare", row.prepare);
  seconds("prepare_noise", row.prepare_noise, kNever);
  seconds("load", row.load);
  seconds("fetch", row.fetch);
  pass_summary(seconds.inner("run"), row.run);
  io("operations", row.cost.operations);
  io("model_bytes", row.cost.model_bytes);
  io("memory_bytes", row.cost.memory);
  io("result_nnz", row.result_nnz);
  io("gflops", row.gflops);
  io("bandwidth_share", row.bandwidth_share);
  io("speedup_previous", row.speedup_previous, 0);
  io("speedup_peer", row.speedup_vendor, 0);
  io("speedup_serial", row.speedup_serial, 0);
  io("break_even_products", row.break_even, kNever);
  io("break_even_known", row.break_even_known);
}

json to_json(const ResultRow& row) {
  json out;
  pass_row(Out{out}, row);
  if (row.checked) {
    json& check = out["check"] = {{"passed", row.check.passed()}, {"sampled", row.check.sampled()}};
    pass_check(Out{check}, row.check);
  }
  if (row.timed()) {
    json& seconds = out["seconds"] = {{"phases", json::object()}};
    for (const PhaseTime& phase : row.phases) seconds["phases"][phase.name] = phase.seconds;
    pass_times(Out{out}, row);
    if (!row.busy.samples.empty()) pass_summary(Out{seconds["busy"]}, row.busy);
  }
  json& metrics = out["metrics"] = json::object();
  for (const Metric& metric : row.metrics)
    metrics[metric.name] = {{"value", number(metric.value, std::nan(""))}, {"unit", metric.unit}};
  return out;
}

ResultRow row_of(const json& in) {
  ResultRow row;
  pass_row(In{in}, row);
  row.checked = in.contains("check");
  if (row.checked) {
    pass_check(In{in.at("check")}, row.check);
    if (!in.at("check").at("passed").get<bool>()) row.check.failure = row.reason;
  }
  if (in.contains("seconds")) {
    pass_times(In{in}, row);
    if (in.at("seconds").contains("busy")) pass_summary(In{in.at("seconds").at("busy")}, row.busy);
    for (const auto& [name, value] : in.at("seconds").at("phases").items())
      row.phases.push_back({name, value});
  }
  for (const auto& [name, metric] : in.at("metrics").items())
    row.metrics.push_back({name, number(metric.at("value"), std::nan("")), metric.at("unit")});
  return row;
}

json to_json(const StepLine::Time& time) {
  return {{"entry", time.entry},
          {"outcome", time.outcome},
          {"seconds", number(time.seconds, 0)},
          {"recorded_seconds", number(time.recorded_seconds, 0)}};
}

json to_json(const StepLine& line) {
  return {{"step", line.step},         {"matrix", line.matrix},   {"options", line.options},
          {"record", line.record},     {"missing", line.missing}, {"plainest", to_json(line.plainest)},
          {"best", to_json(line.best)}};
}

void round_numbers(json& value) {
  if (value.is_structured()) {
    for (json& inner : value) round_numbers(inner);
  } else if (value.is_number_float()) {
    const auto number = value.get<double>();
    if (number != std::floor(number)) value = json::parse(fmt::format("{:.5g}", number));
  }
}

/// A byte that is no UTF-8 (a matrix may be a file of any name) is replaced.
std::string in_one_line(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// What the context says of it; nullptr: nothing.
const std::string* fact(const Results& results, const std::string& wanted) {
  for (const auto& [key, value] : results.context) {
    if (key == wanted) return &value;
  }
  return nullptr;
}

/// Whether the results have the row, and are of one more process now.
bool add_process(Results& results, const ResultRow& more) {
  const auto found = std::ranges::find_if(results.rows, [&](const ResultRow& row) {
    return row.entry == more.entry && row.ranks == more.ranks && row.status == more.status &&
           row.reason == more.reason && row.timed() == more.timed() &&
           same_problem(row.problem, more.problem) && row.problem.round == more.problem.round;
  });
  if (found == results.rows.end()) return false;
  if (!more.timed()) return true;
  const double before = found->run.median;
  found->run = beside(std::move(found->run), more.run);
  for (double* const rate : {&found->gflops, &found->bandwidth_share}) *rate *= before / found->run.median;
  const bool both = !found->busy.samples.empty() && !more.busy.samples.empty();
  found->busy = both ? beside(std::move(found->busy), more.busy) : Summary();
  found->prepare_noise = std::max({found->prepare_noise, more.prepare_noise,
                                   std::abs(found->prepare - more.prepare) / 2 / found->prepare});
  found->prepare = (found->prepare + more.prepare) / 2;
  return true;
}

/// Rows of as many processes, of one operation and of one kind of device are alike.
void know_processes(Results& results) {
  for (Summary ResultRow::*const which : {&ResultRow::run, &ResultRow::busy}) {
    std::map<std::tuple<std::size_t, Op, bool, bool>, std::vector<Summary*>> alike;
    for (ResultRow& row : results.rows)
      if (const std::size_t n = (row.*which).processes.size(); n > 1)
        alike[{n, row.problem.op, row.busy.samples.empty(), row.is_host_bound()}].push_back(&(row.*which));
    for (auto& [kind, summaries] : alike) stages::know_processes(std::move(summaries));
  }
}

/// Rows of one problem together, in the order in which the problems came first.
void group_by_problem(Results& results) {
  std::vector<ProblemFacts> problems;
  const auto place = [&](const ResultRow& row) {
    const auto same = [&](const ProblemFacts& p) { return same_problem(p, row.problem); };
    const std::ptrdiff_t at = std::ranges::find_if(problems, same) - problems.begin();
    if (at == std::ssize(problems)) problems.push_back(row.problem);
    return at;
  };
  for (const ResultRow& row : results.rows) place(row);
  std::ranges::stable_sort(results.rows, {}, place);
}

}  // namespace

json to_json(const Results& results) {
  json out = {{"schema_version", kSchemaVersion}, {"context", json::object()}, {"results", json::array()}};
  for (const auto& [key, value] : results.context) out["context"][key] = value;
  for (const ResultRow& row : results.rows) out["results"].push_back(to_json(row));
  for (const StepLine& line : results.steps) out["steps"].push_back(to_json(line));
  return out;
}

Results results_from_json(const json& text) {
  Results results;
  for (const auto& [key, value] : text.at("context").items()) results.context.emplace_back(key, value);
  for (const json& row : text.at("results")) results.rows.push_back(row_of(row));
  return results;
}

std::string valid_utf8(const std::string& text) { return json::parse(in_one_line(text)).get<std::string>(); }

std::string json_lines(const json& object) {
  json rounded = object;
  round_numbers(rounded);
  std::string out = "{";
  for (const auto& [name, value] : rounded.items()) {
    out += fmt::format("{}\"{}\": ", out.size() > 1 ? ",\n" : "", name);
    if (value.is_array() && !value.empty()) {
      const char* before = "[\n";
      for (const json& element : value) out += std::exchange(before, ",\n") + in_one_line(element);
      out += "]";
    } else {
      out += in_one_line(value);
    }
  }
  return out + "}\n";
}

void copy_facts_of_ranks(const Results& from, Results& to) {
  const std::string* const ranks = fact(from, "ranks");
  if (ranks == nullptr) return;
  std::vector<std::pair<std::string, std::string>> facts;
  for (const char* const key : {"copy_bandwidth_bytes_per_second", "gpu_copy_bandwidth_bytes_per_second",
                                "gpu_to_host_bytes_per_second", "gpus", "mpi", "nodes", "cores",
                                "threads_per_core", "ranks_per_core"}) {
    const std::string name = fmt::format("ranks={}: {}", *ranks, key);
    const std::string* const value = fact(from, key);
    if (value != nullptr && fact(to, name) == nullptr) facts.emplace_back(name, *value);
  }
  to.context.insert(to.context.end(), facts.begin(), facts.end());
}

Results results_in(const std::string& path) {
  std::ifstream text(path);
  try {
    return results_from_json(nlohmann::json::parse(text));
  } catch (const std::exception& error) {
    fail("{}: no results are to be had from it: {}; name another file", path, error.what());
  }
}

Results put_together(Results first, const Results& second) {
  for (const char* const key : {"source_digest", "cpu"}) {
    const std::string *const before = fact(first, key), *const now = fact(second, key);
    if (before != nullptr && now != nullptr && *before != *now)
      fail(
          "results of other runs can be added to only on the same machine, by the same sources: {} was {}, "
          "and is {}",
          key, *before, *now);
  }
  copy_facts_of_ranks(first, first);
  copy_facts_of_ranks(second, first);
  for (auto& [key, value] : first.context) {
    const std::string* const more = fact(second, key);
    if (key == "command" && more != nullptr) value += " && " + *more;
  }
  for (const char* const key : {"part", "errors"}) {
    const std::string* const value = fact(second, key);
    if (value != nullptr) first.context.emplace_back(key, *value);
  }
  for (const ResultRow& row : second.rows)
    if (!add_process(first, row)) first.rows.push_back(row);
  know_processes(first);
  first.steps = second.steps;
  group_by_problem(first);
  relate_all(first);
  return first;
}

}  // namespace stages
