#include "tests/battery.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "common/battery/matrices.hpp"
#include "common/harness/runner.hpp"
#include "common/matrix/convert.hpp"
#include "common/matrix/error.hpp"

namespace stages::battery {
namespace {

const char* environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// Why the entry does not run the problem; empty: it does. `failure` is set where the reason is none.
template <class Problem>
std::string skip_reason(const Entry& entry, const Problem& problem, Exec& exec, const Limits& limits,
                        std::string& failure) {
  const Offer<Problem> offer = entry.on<Problem>().look(problem, exec);
  if (const auto reason = offer.refuse(problem, exec)) {
    if (std::none_of(reason->begin(), reason->end(), [](unsigned char c) { return std::isdigit(c); }))
      failure = fmt::format("refuses without a number: '{}'", *reason);
    return *reason;
  }
  const Cost cost = offer.cost(problem);
  if (!(cost.work <= limits.work))
    return fmt::format("{:.3g} steps, the limit is {:.3g}", cost.work, limits.work);
  if (!(cost.memory <= limits.memory))
    return fmt::format("{:.3g} bytes, the limit is {:.3g}", cost.memory, limits.memory);
  return {};
}

}  // namespace

Pass pass_from_environment() {
  const std::string word = environment("STAGES_BATTERY");
  if (word.empty() || word == "full") return Pass::full;
  if (word == "small") return Pass::small;
  if (word == "brief") return Pass::brief;
  if (word == "sweep") return Pass::sweep;
  fail("STAGES_BATTERY is '{}'; set it to small, brief, full or sweep", word);
}

std::vector<Case> cases(Op op, Pass pass) {
  if (pass == Pass::sweep) return chosen(sweep(op));
  return cases(op, is_half(pass) ? Size::small : Size::full);
}

std::string Tally::text() const {
  std::string out = fmt::format("{} cases ran, {} skipped, {} failed", ran, skips.size(), failures.size());
  for (const std::string& line : failures) out += "\n  FAILED " + line;
  for (const std::string& line : skips) out += "\n  skipped " + line;
  return out;
}

std::string Tally::objection(int least) const {
  if (!failures.empty()) return text();
  if (ran < least) return fmt::format("only {} cases ran, of at least {}: {}", ran, least, text());
  return {};
}

int least_cases() { return std::string(environment("STAGES_BATTERY_ONLY")).empty() ? 8 : 0; }

template <class Problem>
void check_on(const Entry& entry, const Problem& problem, Exec& exec, const Limits& limits,
              const CheckOptions& options, Tally& tally) {
  Communicator& ranks = exec.communicator();
  const bool root = ranks.rank() == 0;
  std::string failure;
  bool runs = true;
  if (root) {
    const std::string reason = skip_reason(entry, problem, exec, limits, failure);
    if (!failure.empty()) tally.failures.push_back(problem.name + ": " + failure);
    if (!reason.empty()) tally.skips.push_back(problem.name + ": " + reason);
    runs = reason.empty();
  }
  if (!ranks.agreed(runs)) return;
  const auto note = [&](const std::string& what) {
    if (root) tally.failures.push_back(problem.name + ": " + what);
  };
  try {
    const CheckReport report = check_entry(entry, problem, exec, options);
    if (!report.passed()) note(report.failure);
  } catch (const std::exception& e) {
    if (ranks.size() > 1) throw;  // the other ranks would wait for ever
    note(fmt::format("threw: {}", e.what()));
  }
  if (root) ++tally.ran;
}

template <class T>
Tally run(const Entry& entry, Exec& exec, Pass pass, Limits limits, CheckOptions options,
          const std::function<bool(const Case&, const Tally&)>& go_on) {
  Tally tally;
  if (pass == Pass::sweep || pass == Pass::brief) options.quick = true;
  if (pass == Pass::sweep) limits.work = std::min(limits.work, 1e6);
  bool other_type = std::is_same_v<T, double>;
  const auto with = [&](auto problem) {
    if (exec.communicator().rank() != 0) {
      problem.a = nullptr;
      if constexpr (requires { problem.b; }) problem.b = nullptr;
    }
    check_on(entry, problem, exec, limits, options, tally);
  };
  for (const Case& c : cases(entry.op, pass)) {
    if (pass == Pass::sweep && !c.both_types && std::exchange(other_type, !other_type)) continue;
    with_problem<T>(c, with);
    if (go_on && !go_on(c, tally)) break;
  }
  return tally;
}

std::string check_chains(const Entry& entry, Exec& exec, Destination destination) {
  if (!entry.chains) return {};
  struct Chain {
    std::function<Csr<double>()> make;
    Index rounds;
  };
  exec.copy_bandwidth();  // by all ranks together, before rank 0 asks
  const Entry* const chosen = &entry;
  // Powers of a strictly upper triangle, of a path and of a graph.
  for (const auto& [make, rounds] : {Chain{matrices::of(matrices::upper_triangle, 30), 25},
                                     {matrices::of(matrices::banded, 40, 1), 6},
                                     {matrices::of(matrices::uneven, 70, 70, 3), 4}}) {
    SpgemmProblem<float> problem{.destination = destination, .rounds = rounds};
    if (exec.communicator().rank() == 0) {
      const auto a = std::make_shared<const Csr<float>>(convert_values<float>(make()));
      problem = make_spgemm_problem<float>(fmt::format("chain of {}", rounds), a, a, destination, rounds);
    }
    Results results;
    run_problem(problem, std::span(&chosen, 1), Machine(exec, exec), {.max_samples = 1, .max_memory = 1e9},
                {}, results);
    const ResultRow& last = results.rows.back();
    if (last.status == Status::skipped && destination != Destination::host) return {};
    if (last.status != Status::good || results.rows.size() != static_cast<std::size_t>(rounds))
      return fmt::format("round {} of {}: {}", results.rows.size(), rounds, last.reason);
  }
  return {};
}

std::vector<std::string> data_files() {
  std::vector<std::string> files;
  std::istringstream directories(environment("STAGES_DATA"));
  for (std::string directory; std::getline(directories, directory, ':');) {
    std::error_code error;
    const std::size_t before = files.size();
    for (const auto& file : std::filesystem::directory_iterator(directory, error)) {
      const std::string name = file.path().string();
      if (name.ends_with(".mtx") || name.ends_with(".mtx.gz")) files.push_back(name);
    }
    if (error) fail("STAGES_DATA: {}: {}; name directories, separated by ':'", directory, error.message());
    if (files.size() == before)
      fail("STAGES_DATA: {} holds no .mtx or .mtx.gz file; name directories that do", directory);
  }
  std::sort(files.begin(), files.end());
  return files;
}

#define STAGES_INSTANTIATE(P) \
  template void check_on(const Entry&, const P&, Exec&, const Limits&, const CheckOptions&, Tally&);
STAGES_FOR_EACH_PROBLEM(STAGES_INSTANTIATE)
template Tally run<float>(const Entry&, Exec&, Pass, Limits, CheckOptions,
                          const std::function<bool(const Case&, const Tally&)>&);
template Tally run<double>(const Entry&, Exec&, Pass, Limits, CheckOptions,
                           const std::function<bool(const Case&, const Tally&)>&);

}  // namespace stages::battery
