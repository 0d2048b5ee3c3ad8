#include "common/harness/runner.hpp"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "common/harness/build_info.hpp"
#include "common/harness/machine.hpp"
#include "common/harness/runner_parts.hpp"
#include "common/matrix/memory.hpp"
#include "common/matrix/processors.hpp"

namespace stages {

using namespace running;

namespace {

/// Of a dense result; of a sparse one the rows.
template <class Problem>
double result_elements(const Problem& problem) {
  const double rows = problem.a->rows;
  if constexpr (Problem::kOp == Op::spmv) return rows * (problem.mode == Mode::chain ? 1 : problem.n_vectors);
  if constexpr (Problem::kOp == Op::spmm) return rows * problem.n_cols;
  return rows;
}

}  // namespace

template <class Problem>
std::string refusal(const Entry& entry, const Problem& problem, const Machine& machine,
                    const RunOptions& options, Cost* to_tell) {
  if (entry.needs.gpu && machine.gpu == nullptr) return "needs a GPU, and " + machine.no_gpu;
  double on_host = 0;  // of C: no entry is the sum of more products than a row of A has entries
  if constexpr (Problem::kOp == Op::spgemm) {
    if (problem.rounds > 1 && !entry.chains) return "cannot take its C for the next A: it is not for chains";
    const Offset entries = problem.products / std::max<Offset>(1, problem.a->longest_row());
    if (entry.needs.gpu) on_host = static_cast<double>(entries) * (4 + sizeof(typename Problem::Value));
  }
  Exec& exec = machine.of(entry);
  const int ranks = exec.communicator().size();
  if (!entry.needs.several_ranks && ranks > 1)
    return fmt::format("runs on one rank, and there are {}", ranks);
  const Offer<Problem> offer = entry.on<Problem>().look(problem, exec);
  if (const auto reason = offer.refuse(problem, exec)) return *reason;
  const Cost cost = offer.cost(problem);
  if (to_tell != nullptr) *to_tell = cost;
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const bool whole_check = !options.check_once || exec.simulated();
  const bool check_on_host = whole_check && (!entry.needs.gpu || exec.simulated());
  const double with_check = check_on_host ? cost.memory + check_bytes(problem) : 0;
  const double memory = options.max_memory > 0 ? options.max_memory : exec.memory_limit();
  struct Limit {
    double needed, most;
    std::string (*words)(double);
    const char *what, *limit;
  };
  for (const auto& [needed, most, words, what, limit] : {
           Limit{cost.memory, memory, format_bytes, "of memory", "the limit is {} (--max-memory)"},
           {on_host > 0 && exec.simulated() ? on_host + cost.memory : on_host,
            options.max_memory > 0 ? options.max_memory : static_cast<double>(available_memory()),
            format_bytes, "of memory on the host, for C", "the limit is {} (--max-memory)"},
           {with_check, options.max_memory > 0 ? options.max_memory : kNone, format_bytes,
            "of memory with what its check takes", "the limit is {} (--max-memory)"},
           {with_check, static_cast<double>(available_memory()), format_bytes,
            "of memory with what its check takes", "and {} are free"},
           {exec.simulated() ? cost.work : 0, options.max_simulated_work, format_count, "steps",
            "the limit on the executor is {}: take a smaller matrix"},
           {cost.work, options.max_work, format_count, "steps", "the limit is {} (--max-work)"},
           // Dense operands may be far larger than the matrix.
           {(whole_check ? 3 : 1) * operand_elements(problem), options.max_work, format_count,
            "numbers as operands of its check", "the limit is {} (--max-work)"},
           {whole_check ? 3 * result_elements(problem) : 0, options.max_work, format_count,
            "numbers as results of its check", "the limit is {} (--max-work)"},
       }) {
    if (needed > most)
      return fmt::format("needs {} {}, {}", words(needed), what,
                         fmt::format(fmt::runtime(limit), words(most)));
  }
  return {};
}

namespace {

/// Whether the entry may run, then the check. The row says what came of it.
template <class Problem>
void admit(const Entry& entry, const Problem& problem, const Machine& machine, const RunOptions& options,
           ResultRow& row) {
  Communicator& ranks = machine.host.communicator();
  row.reason =
      ranks.agreed(ranks.rank() == 0 ? refusal(entry, problem, machine, options, &row.cost) : std::string());
  if (!row.reason.empty()) {
    row.status = Status::skipped;
    return;
  }
  if (options.check_once && !row.simulated) return;
  Exec& exec = machine.of(entry);
  within_time(row, exec, options, ranks, [&] {
    row.check = check_entry(entry, problem, exec, options.check);
    row.checked = true;
    judge(row, ranks.agreed(row.check.failure), ranks.agreed(row.check.void_because()));
    if (row.status != Status::good) return;
    row.note = row.check.note;
    row.metrics = row.check.metrics;
  });
}

}  // namespace

ResultRow row_of(const Entry& entry) {
  ResultRow row;
  row.entry = entry.name;
  row.idea = entry.idea;
  row.previous = entry.previous;
  row.vendor = entry.is_vendor();
  row.structure_reuse = entry.claims.structure_reuse;
  row.mpi = entry.needs.mpi;
  return row;
}

template <class Problem>
void run_problem(const Problem& problem, std::span<const Entry* const> entries, const Machine& machine,
                 const RunOptions& options, const RunEvents& events, Results& results) {
  if constexpr (Problem::kOp == Op::spgemm) {
    if (problem.rounds > 1) return run_chain(problem, entries, machine, options, events, results);
  }
  const std::size_t first = results.rows.size();
  const ProblemFacts facts = facts_of(problem);
  for (const Entry* entry : entries) {
    ResultRow& row = results.rows.emplace_back(row_of(*entry));
    row.problem = facts;
    row.simulated = machine.of(*entry).simulated();
    row.ranks = machine.host.communicator().size();
  }
  for (std::size_t k = 0; k < entries.size(); ++k) {
    ResultRow& row = results.rows[first + k];
    if (events.checking) events.checking(row);
    admit(*entries[k], problem, machine, options, row);
  }

  const std::span<ResultRow> rows = std::span(results.rows).subspan(first);
  if (std::any_of(rows.begin(), rows.end(), to_time))
    time_rows(problem, entries, machine, options, events, rows);
  relate_rows(rows);
  for (std::size_t k = first; events.done && k < results.rows.size(); ++k) events.done(results.rows[k]);
}

std::vector<std::pair<std::string, std::string>> run_context(const std::vector<std::string>& command_line,
                                                             const Machine& machine) {
  // Of files named from the root only the last part: where they lay says nothing elsewhere.
  std::string command;
  for (const std::string& word : command_line) {
    const bool from_the_root = word.starts_with('/');
    command += (command.empty() ? "" : " ") +
               (from_the_root ? std::filesystem::path(word).filename().string() : word);
  }
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  const BuildInfo& build = build_info();
  std::vector<std::pair<std::string, std::string>> context = {
      {"command", command},
      {"date", date},
      {"version", build.version},
      {"source_digest", build.source_digest},
      {"code", build.code},
      {"compiler", build.compiler},
      {"flags", build.flags},
      {"backend", build.backend},
      {"cpu", cpu_name()},
      {"cpus", fmt::format("{}", available_processors())},
      {"memory", format_bytes(total_memory_bytes())},
      {"system", system_name()},
      {"ranks", fmt::format("{}", machine.host.communicator().size())},
      {"copy_bandwidth_bytes_per_second", fmt::format("{:.4g}", machine.host.copy_bandwidth())},
      {"gpu", machine.gpu != nullptr ? machine.gpu->device() : machine.no_gpu},
  };
  if (most_copied_bytes() > 0)
    context.emplace_back("copied_bytes", fmt::format("{:.0f}, by STAGES_COPY_BYTES", most_copied_bytes()));
  if (machine.gpu != nullptr && !machine.gpu->simulated()) {
    context.emplace_back("gpu_copy_bandwidth_bytes_per_second",
                         fmt::format("{:.4g}", machine.gpu->copy_bandwidth()));
    for (auto& fact : machine.gpu->facts()) context.push_back(std::move(fact));
  }
  note_state(context, machine, "begin");
  return context;
}

void note_state(std::vector<std::pair<std::string, std::string>>& context, const Machine& machine,
                const char* when) {
  double load = 0;
  if (getloadavg(&load, 1) == 1)
    context.emplace_back(fmt::format("load_{}", when), fmt::format("{:.2f}", load));
  if (machine.gpu == nullptr) return;
  if (const auto mhz = machine.gpu->state(true).clock_mhz)
    context.emplace_back(fmt::format("gpu_sm_clock_mhz_{}", when), fmt::format("{:.0f}", *mhz));
}

#define STAGES_INSTANTIATE(P)                                                                           \
  template std::string refusal(const Entry&, const P&, const Machine&, const RunOptions&, Cost*);       \
  template void run_problem(const P&, std::span<const Entry* const>, const Machine&, const RunOptions&, \
                            const RunEvents&, Results&);
STAGES_FOR_EACH_PROBLEM(STAGES_INSTANTIATE)

}  // namespace stages
