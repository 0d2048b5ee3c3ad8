#include "common/harness/put_together.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/matrix/error.hpp"

namespace stages {
namespace {

/// What the context says of it; nullptr: nothing.
const std::string* fact(const Results& results, const std::string& wanted) {
  for (const auto& [key, value] : results.context) {
    if (key == wanted) return &value;
  }
  return nullptr;
}

/// Rows of one problem together, in the order in which the problems came first.
void group_by_problem(Results& results) {
  std::vector<ProblemFacts> problems;
  const auto place = [&](const ResultRow& row) {
    const auto found = std::find_if(problems.begin(), problems.end(),
                                    [&](const ProblemFacts& p) { return same_problem(p, row.problem); });
    if (found == problems.end()) problems.push_back(row.problem);
    return found - problems.begin();
  };
  for (const ResultRow& row : results.rows) place(row);
  std::stable_sort(results.rows.begin(), results.rows.end(),
                   [&](const ResultRow& a, const ResultRow& b) { return place(a) < place(b); });
}

}  // namespace

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
  first.rows.insert(first.rows.end(), second.rows.begin(), second.rows.end());
  first.steps = second.steps;
  group_by_problem(first);
  return first;
}

}  // namespace stages
