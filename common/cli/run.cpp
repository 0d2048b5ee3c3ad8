// stages run: every chosen entry on every chosen matrix, checked and timed side by side.
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "common/cli/inputs.hpp"
#include "common/cli/kept.hpp"
#include "common/cli/last_words.hpp"
#include "common/cli/orders.hpp"
#include "common/cli/places.hpp"
#include "common/cli/program.hpp"
#include "common/cli/progress.hpp"
#include "common/cli/publish.hpp"
#include "common/cli/run_choice.hpp"
#include "common/cli/run_options.hpp"
#include "common/cli/run_problems.hpp"
#include "common/cli/start_ranks.hpp"
#include "common/cli/tour.hpp"
#include "common/harness/device_watch.hpp"
#include "common/harness/product.hpp"
#include "common/harness/results.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/generate.hpp"

namespace stages {
namespace {

/// Throws Error where an option asks for what is not known of this machine's GPU.
void require_what_it_tells(const RunOptions& options, const Machine& machine) {
  if (options.least_clock_mhz <= 0) return;
  DeviceState state{.unknown = machine.no_gpu};
  if (machine.gpu != nullptr) state = machine.gpu->state(true);
  if (machine.is_simulated()) state.unknown = "kernels run on the executor, where nothing is timed";
  require_told(state, options.least_clock_mhz);
}

/// Whether an entry of these runs on ranks that need a GPU each.
bool need_gpus_on_ranks(const std::vector<Part>& parts) {
  return std::ranges::any_of(parts, [](const Part& part) {
    return std::ranges::any_of(part.entries, [](const Entry* e) { return e->needs.mpi && e->needs.gpu; });
  });
}

/// How many rows they make, for who tells how far a run is: rounds of chains not counted.
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

/// One after the other all problems of all parts: rank 0 leads, the other ranks follow.
class Run {
 public:
  Run(const Program& program, std::vector<Part> parts, Places& places)
      : program_(program),
        ranks_(program.ranks),
        parts_(std::move(parts)),
        part_(&parts_.front()),
        options_(run_options(part_->arguments.effort)),
        places_(places),
        together_(places.all(need_gpus_on_ranks(parts_))),
        kept_([this](const std::string& error) { progress_.say(error_line(program_, error)); }),
        progress_(count_runs(parts_)) {
    // Ranks have no GPU where none of their entries needs one.
    if (!ranks_.started() || together_.gpu != nullptr) require_what_it_tells(options_, together_);
    results().context = run_context(program.arguments, together_);
    if (ranks_.started())
      for (auto& fact : ranks_.exec().facts()) results().context.push_back(std::move(fact));
    kept_.keep();
  }

  /// Every rank.
  void all() {
    if (!ranks_.root()) return follow();
    for (Part& part : parts_) {
      part_ = &part;
      for (const Job& job : part.jobs)
        with_type(part.arguments.effort.type, [&]<class T>() { matrix<T>(job); });
      progress_.clear();
      if (!part.words.empty()) start_ranks(part);
    }
    if (ranks_.started())
      ranks_.tell({.stop = true});
    else
      note_state(results().context, places_.alone(), "end");
  }

  Results& results() { return kept_.results(); }
  const Kept& kept() const { return kept_; }
  const std::vector<Part>& parts() const { return parts_; }

 private:
  /// Of a tour: the entries of `part` for several ranks, on each number of them.
  void start_ranks(Part& part) {
    try {
      for (const int ranks : part.arguments.problem.ranks) {
        const Results more = results_on_ranks(part.words, ranks);
        copy_facts_of_ranks(more, results());
        results().rows.insert(results().rows.end(), more.rows.begin(), more.rows.end());
        kept_.keep();
      }
    } catch (const Error& error) {
      part.missing = error.what();
      kept_.note(part.missing);
    }
  }

  /// Ranks other than 0: take part in each problem that rank 0 tells of.
  void follow() {
    for (Order order = ranks_.tell({}); !order.stop; order = ranks_.tell({}))
      with_ordered(order, [&](const auto& problem) { on_ranks(problem); });
  }

  /// The entries for several ranks, on all of them. Collective.
  template <class Problem>
  void on_ranks(const Problem& problem) {
    all_wait_ = true;
    run_entries(problem, true, together_);
    all_wait_ = false;
  }

  /// The entries for several ranks, or (`mpi` is false) the others, or all.
  template <class Problem>
  void run_entries(const Problem& problem, std::optional<bool> mpi, const Machine& machine) {
    run_problem(problem, of_operation(part_->entries, Problem::kOp, mpi), machine, options_,
                ranks_.root() ? events() : RunEvents(), results());
  }

  /// Those of the progress, and the rows so far are kept.
  RunEvents events() {
    RunEvents events = progress_.events();
    events.checking = [this, show = std::move(events.checking)](const ResultRow& row) {
      kept_.keep_under_way(kept_.under_way());
      show(row);
    };
    return events;
  }

  /// The rows of these operations before they are run.
  std::vector<ResultRow> blank_rows(const ProblemFacts& facts, const std::vector<Op>& ops) const {
    std::vector<ResultRow> rows;
    for (const Op op : ops) {
      for (const Entry* const entry : of_operation(part_->entries, op)) {
        ResultRow& row = rows.emplace_back(row_of(*entry));
        row.problem = facts;
        row.problem.op = op;
        if (entry->needs.mpi) row.ranks = ranks_.size();
      }
    }
    return rows;
  }

  template <class T>
  void matrix(const Job& job) {
    std::vector<Op> ops = job.ops;
    std::erase_if(ops, [&](Op op) { return of_operation(part_->entries, op).empty(); });
    if (ops.empty()) return;
    const auto load = [&](const std::string& source) -> SharedCsr<T> {
      progress_.doing("reading " + source);
      return std::make_shared<const Csr<T>>(load_matrix<T>(source, finite(part_->arguments.input)));
    };
    ProblemFacts facts{.matrix = job.name, .type = type_name<T>()};
    SharedCsr<T> a;
    if (!kept_.attempt(blank_rows(facts, ops), all_wait_, [&] { a = load(job.name); })) return;
    facts.rows = a->rows;
    facts.cols = a->cols;
    facts.nnz = a->nnz();
    const bool simulated = !ranks_.started() && places_.alone().is_simulated();
    const Problems<T> problems{part_->arguments.problem, options_, simulated, load};
    for (const Op op : ops) {
      kept_.attempt(blank_rows(facts, {op}), all_wait_, [&] {
        const std::string left_out = problems.of(
            op, job, a, [&](const auto& problem, const std::string& form) { run(problem, form); });
        if (!left_out.empty()) progress_.say(left_out);
      });
    }
  }

  /// Runs one problem; `form` says what was multiplied where that isn't plain.
  template <class Problem>
  void run(const Problem& problem, const std::string& form) {
    if (!ranks_.started()) {
      run_entries(problem, std::nullopt, places_.alone());
      if (program_.count) count(problem);
    } else {
      // Those for one process have rank 0 and its processors for themselves: the other ranks sleep meanwhile.
      if (!part_->arguments.problem.ranks_only) run_entries(problem, false, places_.alone());
      ranks_.tell(order_for(problem));
      on_ranks(problem);
    }
    std::ranges::stable_sort(kept_.under_way(), {}, [](const ResultRow& row) { return row.problem.round; });
    for (ResultRow& row : kept_.under_way()) {
      std::string& options = row.problem.options;
      options = form + (form.empty() || options.empty() ? "" : ", ") + options;
    }
    if (!ranks_.started()) measure_copy_again(places_.alone().host, results());
    if (const std::string why = places_.newly_not_traced(); !why.empty()) {
      results().context.emplace_back("not_traced", why);
      progress_.say("for how long the GPU is busy is not known: " + why);
    }
    kept_.keep();
  }

  /// Kernels that were checked, not timed, are counted: their rows say what they ask of memory.
  template <class Problem>
  void count(const Problem& problem) {
    constexpr double kMostWork = 4e6;  // counting takes as long as several runs: seconds for this
    for (ResultRow& row : kept_.under_way()) {
      const bool shown = row.status == Status::good && row.simulated && row.checked && row.problem.round <= 1;
      if (!shown || row.cost.work > kMostWork) continue;
      const Entry& entry = program_.registry.find(row.entry);
      progress_.doing("counting " + row.entry);
      try {
        const Counted counted =
            program_.count(one_product(entry, problem, places_.alone().of(entry)), row.problem);
        if (counted.metrics.empty()) continue;
        row.metrics.insert(row.metrics.end(), counted.metrics.begin(), counted.metrics.end());
        row.add_note(counted.bound);
      } catch (const std::exception& error) {  // its check was good all the same
        row.add_note(fmt::format("not counted: {}", error.what()));
      }
    }
  }

  const Program& program_;
  Ranks& ranks_;
  std::vector<Part> parts_;
  const Part* part_;  ///< the one that is under way
  RunOptions options_;
  Places& places_;
  Machine together_;       ///< all ranks, where there are some
  bool all_wait_ = false;  ///< all ranks are in the middle of a problem
  Kept kept_;
  Progress progress_;
};

/// Runs all parts, and publishes what they have found out, once: a signal meanwhile waits for that, and one
/// before publishes a part. Where nothing at all could be done no file is written.
int carry_out(const Program& program, const RunArguments& arguments, Run& run) {
  if (!program.ranks.root()) {
    run.all();
    return kGood;
  }
  const Publisher publisher(arguments, run.results());
  std::mutex publishing;
  bool published = false;
  const auto once = [&](const auto& publish_it) {
    const std::lock_guard lock(publishing);
    if (!std::exchange(published, true)) publish_it();
  };
  const auto publish_part = [&](const std::string& what) {
    once([&] { publisher.publish_part(run.kept().part("the run was ended by " + what), what); });
  };
  const LastWords last_words([&](const std::string& signal) {
    end_ranks();
    publish_part(signal);
  });
  try {
    run.all();
  } catch (...) {
    publish_part("an error");
    throw;
  }
  Results& results = run.results();
  const std::vector<std::string>& errors = run.kept().errors();
  if (!errors.empty()) results.context.emplace_back("errors", fmt::format("{}", fmt::join(errors, "; ")));
  const auto lost = [](const ResultRow& row) { return row.status == Status::failed && !row.checked; };
  if (!errors.empty() && std::all_of(results.rows.begin(), results.rows.end(), lost)) return kBadInput;
  if (arguments.matrices.empty()) results.steps = tour_lines(program, run.parts(), results);
  once([&] { publisher.publish(results); });
  if (!results.steps.empty())
    fmt::print(
        "\nWhat the columns mean: docs/reading-tables.md. More of what was found out: --json FILE, --csv "
        "FILE, "
        "--all.\n");
  if (!errors.empty()) return kBadInput;
  if (results.count(Status::wrong) + results.count(Status::failed) > 0) return kWrongResult;
  return results.count(Status::good) > 0 ? kGood : kAllSkipped;
}

/// In weak scaling: the sizes for so many ranks in the place of those for one.
void grow(RunArguments& arguments, int ranks) {
  bool scaled = false;
  for (std::string& matrix : arguments.matrices) matrix = scaled_spec(matrix, ranks, scaled);
  arguments.problem.b = scaled_spec(arguments.problem.b, ranks, scaled);
  if (!scaled)
    fail(
        "--weak: no size grows with the ranks; write xR behind the one that does, as in "
        "-m gen:uniform:rows=1e5xR,cols=1e5xR,per_row=8");
}

int work(const Program& program, RunArguments arguments) {
  if (!arguments.rules.empty()) setenv("STAGES_RULES", arguments.rules.c_str(), 1);  // common/gpu/rules.hpp
  if (program.ranks.root()) {
    require_sense(arguments);
    require_effect(arguments);
  }
  Places places(program.ranks, arguments.effort.launch == "graph");
  std::vector<Part> parts;
  if (arguments.matrices.empty()) {  // each step on a matrix that suits it
    require_tour(arguments, program.ranks);
    const Exec* const gpu = places.alone().gpu;
    parts = tour_parts(program, arguments, gpu != nullptr && !gpu->simulated());
  } else {
    const std::vector<int>& ranks = arguments.problem.ranks;
    const bool starts = are_to_be_started(program, ranks, arguments.problem.ranks_started);
    if (arguments.problem.weak) {
      if (!starts && !program.ranks.started()) fail("--weak goes with --ranks, as in --ranks 4 --weak");
      grow(arguments, starts ? ranks.front() : program.ranks.size());
    }
    const std::vector<const Entry*> entries = chosen_entries(program, arguments);
    parts.push_back({arguments, {}, entries, jobs_of(arguments)});
    if (starts) {
      if (std::ranges::none_of(entries, [](const Entry* e) { return e->needs.mpi; }))
        fail("--ranks: none of the entries chosen runs on ranks; `{} list` shows which do", program.name);
      return run_on_ranks(program, ranks.front(), arguments.json);
    }
  }
  Run run(program, std::move(parts), places);
  return carry_out(program, arguments, run);
}

}  // namespace

void add_run_command(CommandLine& line, const Program& program) {
  Command command = line.add("run", "Check and time entries side by side, and show a table");
  const auto arguments = std::make_shared<RunArguments>();
  add_run_options(command, *arguments);
  command.footer([&program] {
    return examples(program, {{"run", "a look at every step, on matrices that suit this machine"},
                              {"run -m web.mtx.gz road.mtx --op spmv,spmm", "files of yours"},
                              {"run -m a.mtx -b b.mtx", "the product of two sparse matrices"},
                              {"run -m data:all --quick", "all entries on the built-in matrices"},
                              {"run -m gen:fixed:n=1024,zeros=0.8 --op spmv --mode chain --products 1000",
                               "1000 dependent products"},
                              {"run -m data:fem --stage 01,vendor --filter 'csr|eigen' --json out.json",
                               "a choice of entries, results to a file"}});
  });
  command.does([&program, arguments] { return work(program, *arguments); });
}

}  // namespace stages
