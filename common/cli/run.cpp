// stages run: every chosen entry on every chosen matrix, checked and timed side by side.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "common/cli/commands.hpp"
#include "common/cli/findings.hpp"
#include "common/cli/inputs.hpp"
#include "common/cli/last_words.hpp"
#include "common/cli/orders.hpp"
#include "common/cli/progress.hpp"
#include "common/cli/run_choice.hpp"
#include "common/cli/run_options.hpp"
#include "common/cli/start_ranks.hpp"
#include "common/cli/terminal.hpp"
#include "common/cli/tour.hpp"
#include "common/harness/device_watch.hpp"
#include "common/harness/product.hpp"
#include "common/harness/results.hpp"
#include "common/machines/devices.hpp"
#include "common/matrix/convert.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/generate.hpp"
#include "common/matrix/memory.hpp"

namespace stages {
namespace {

/// Sum over columns of the square of their length, or over rows: the products of A A^T, and of A^T A.
template <class T>
double square_products(const Csr<T>& a) {
  double sum = 0;
  for (Index i = 0; i < a.rows; ++i)
    sum += static_cast<double>(a.row_nnz(i)) * static_cast<double>(a.row_nnz(i));
  return sum;
}

KernelLaunch launch_of(const Effort& effort) { return value_named(kLaunches, effort.launch).value(); }

class Run {
 public:
  Run(const Program& program, const Effort& effort, std::vector<Part> parts, Devices* devices = nullptr)
      : program_(program),
        effort_(effort),
        ranks_(*program.ranks),
        limits_(run_options(effort)),
        parts_(std::move(parts)),
        part_(&parts_.front()),
        devices_(devices),
        progress_(count_runs(parts_)) {
    const Machine machine = ranks_.started() ? machine_of_ranks() : this->devices().machine();
    // Ranks have no GPU where none of their entries needs one.
    if (!ranks_.started() || machine.gpu != nullptr) require_what_it_tells(machine);
    results_.context = run_context(program.arguments, machine);
    if (ranks_.started())
      for (auto& fact : ranks_.exec().facts()) results_.context.push_back(std::move(fact));
    findings_.keep(results_);
  }

  /// Every rank.
  void all() {
    if (!ranks_.root()) return follow();
    for (Part& part : parts_) {
      part_ = &part;
      lead();
      const bool starts = !part.words.empty() && !part.arguments.problem.ranks.empty();
      if (starts && part.missing.empty()) start_ranks(part);
    }
    if (ranks_.started())
      ranks_.tell({.stop = true});
    else
      note_state(results_.context, devices().machine(), "end");
  }

  Results& results() { return results_; }
  const Findings& findings() const { return findings_; }
  const std::vector<Part>& parts() const { return parts_; }
  /// What could not be done, in words. It was told when it was met, and the rows that it cost say it.
  const std::vector<std::string>& errors() const { return errors_; }

 private:
  void lead() {
    for (const Job& job : part_->jobs) with_type(effort_.type, [&]<class T>() { matrix<T>(job); });
    progress_.clear();
  }

  /// Of a tour: the entries of `part` for several ranks, on each number of them.
  void start_ranks(Part& part) {
    try {
      for (const int ranks : part.arguments.problem.ranks) {
        const Results more = results_on_ranks(part.words, ranks);
        copy_facts_of_ranks(more, results_);
        results_.rows.insert(results_.rows.end(), more.rows.begin(), more.rows.end());
        findings_.keep(results_);
      }
    } catch (const Error& error) {
      part.missing = error.what();
      note(part.missing);
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
    together_ = true;
    const RunEvents events = ranks_.root() ? this->events() : RunEvents();
    run_problem(problem, entries_of(Problem::kOp, true), machine_of_ranks(), limits_, events, results_);
    together_ = false;
  }

  /// Those of the progress, and the rows so far are kept.
  RunEvents events() {
    RunEvents events = progress_.events();
    events.checking = [this, show = std::move(events.checking)](const ResultRow& row) {
      findings_.keep_current(std::span(results_.rows).subspan(first_));
      show(row);
    };
    return events;
  }

  void note(const std::string& error) {
    errors_.push_back(error);
    progress_.say(error_line(program_, error));
  }

  /// Does `work`, which is to make the rows of `ops` for A of these `facts`. Rows without a result yet tell of
  /// an error in it, and the run goes on; but not where other ranks wait in the middle of it.
  template <class Work>
  bool attempt(const ProblemFacts& facts, const std::vector<Op>& ops, Work&& work) {
    first_ = results_.rows.size();
    findings_.keep_current(blank_rows(facts, ops));
    try {
      work();
      return true;
    } catch (const OutOfMemory& error) {  // with its number, before it was taken
      if (together_) throw;
      lose(facts, ops, Status::skipped, error.what());
    } catch (const Error& error) {
      if (together_) throw;
      note(error.what());
      lose(facts, ops, Status::failed, error.what());
    } catch (const std::bad_alloc&) {
      if (together_) throw;
      const std::string what = fmt::format("{}: {}", facts.matrix, out_of_memory());
      note(what);
      lose(facts, ops, Status::failed, what);
    }
    return false;
  }

  /// The rows of these operations before they are run.
  std::vector<ResultRow> blank_rows(const ProblemFacts& facts, const std::vector<Op>& ops) const {
    std::vector<ResultRow> rows;
    for (const Op op : ops) {
      for (const Entry* const entry : entries_of(op)) {
        ResultRow& row = rows.emplace_back(row_of(*entry));
        row.problem = facts;
        row.problem.op = op;
        if (entry->needs.mpi) row.ranks = ranks_.size();
      }
    }
    return rows;
  }

  void lose(const ProblemFacts& facts, const std::vector<Op>& ops, Status status, const std::string& why) {
    if (results_.rows.size() == first_) {
      const std::vector<ResultRow> rows = blank_rows(facts, ops);
      results_.rows.insert(results_.rows.end(), rows.begin(), rows.end());
    }
    for (ResultRow& row : std::span(results_.rows).subspan(first_)) {
      const bool has_result = row.timed() || (row.simulated && row.checked);
      if (row.status != Status::good || has_result) continue;
      row.status = status;
      row.reason = why;
    }
  }

  /// With the GPUs of all ranks only where an entry needs them: each process then takes memory on its own.
  Machine machine_of_ranks() {
    return ranks_.machine(std::ranges::any_of(parts_, [](const Part& part) {
      return std::ranges::any_of(part.entries, [](const Entry* e) { return e->needs.mpi && e->needs.gpu; });
    }));
  }

  /// Throws Error where an option asks for what is not known of this machine's GPU.
  void require_what_it_tells(const Machine& machine) const {
    if (limits_.least_clock_mhz <= 0 && limits_.energy_seconds <= 0) return;
    DeviceState state{.unknown = machine.no_gpu};
    if (machine.gpu != nullptr) state = machine.gpu->state(true);
    if (machine.gpu != nullptr && machine.gpu->simulated())
      state.unknown = "kernels run on the executor, where nothing is timed";
    require_told(state, limits_.least_clock_mhz, limits_.energy_seconds);
  }

  const ProblemOptions& options() const { return part_->arguments.problem; }

  /// For entries of one process. Of several ranks only rank 0 takes its GPU.
  const Devices& devices() {
    if (devices_ == nullptr) devices_ = &own_devices_.emplace(launch_of(effort_));
    return *devices_;
  }

  /// Of the entries of `op` those that run on the ranks of MPI, or the others.
  std::vector<const Entry*> entries_of(Op op, bool mpi) const {
    std::vector<const Entry*> out = entries_of(op);
    std::erase_if(out, [&](const Entry* e) { return e->needs.mpi != mpi; });
    return out;
  }

  std::vector<const Entry*> entries_of(Op op) const {
    std::vector<const Entry*> out = part_->entries;
    std::erase_if(out, [&](const Entry* e) { return e->op != op; });
    return out;
  }

  static std::size_t count_runs(const std::vector<Part>& parts) {
    std::size_t count = 0;
    for (const Part& part : parts) {
      for (const Job& job : part.jobs) {
        for (const Entry* const entry : part.entries)
          if (std::ranges::count(job.ops, entry->op) > 0)
            count += entry->op == Op::spmm     ? part.arguments.problem.n_cols.size()
                     : entry->op == Op::spgemm ? part.arguments.problem.destinations.size()
                                               : 1;
      }
    }
    return count;
  }

  template <class T>
  std::shared_ptr<const Csr<T>> load(const std::string& source) {
    progress_.doing("reading " + source);
    return std::make_shared<const Csr<T>>(load_matrix<T>(source, options().input, NonFinite::refused));
  }

  /// Products of matrices with next to nothing in them still take memory and time for each row and column.
  /// Throws OutOfMemory where that is out of proportion. `vectors`: columns of the dense operand.
  template <class T>
  void require_room(const std::string& name, const Csr<T>& a, double vectors) const {
    // Seen in runs on 4 million rows with one entry: row pointers, references, x, y and what checks y.
    const double line_bytes = 64 + 3 * sizeof(T) * vectors;
    // Who writes a spec has asked for so many; a file may have been made by somebody else.
    const double most =
        is_matrix_spec(name) ? static_cast<double>(available_memory()) / 2 : kMostForEmptyLines;
    require_room_for_lines(name, a.rows, a.cols, a.nnz(), line_bytes,
                           limits_.max_memory > 0 ? limits_.max_memory : most);
  }

  template <class T>
  void matrix(const Job& job) {
    std::vector<Op> ops = job.ops;
    std::erase_if(ops, [&](Op op) { return entries_of(op).empty(); });
    if (ops.empty()) return;
    ProblemFacts facts{.matrix = job.name, .type = type_name<T>()};
    std::shared_ptr<const Csr<T>> a;
    if (!attempt(facts, ops, [&] { a = load<T>(job.name); })) return;
    facts.rows = a->rows;
    facts.cols = a->cols;
    facts.nnz = a->nnz();
    for (const Op op : ops) {
      attempt(facts, {op}, [&] {
        if (op == Op::spmv) spmv<T>(job, a);
        if (op == Op::spmm) spmm<T>(job, a);
        if (op == Op::spgemm) spgemm<T>(job, a);
      });
    }
  }

  template <class T>
  void spmv(const Job& job, const std::shared_ptr<const Csr<T>>& a) {
    const Mode mode = value_named(kModes, options().mode).value();
    if (mode == Mode::chain && a->rows != a->cols && job.from_set) {
      progress_.say(
          fmt::format("{}: left out: a chain of products needs a square matrix, and this one is {} x {}",
                      job.name, a->rows, a->cols));
      return;
    }
    const Index products = options().products.value_or(mode == Mode::single ? 1 : default_products(a->nnz()));
    require_room(job.name, *a, mode == Mode::chain ? 1 : products);
    problem(make_spmv_problem<T>(job.name, a, mode, products));
  }

  /// Fewer where so many would be beyond the limits for every entry.
  Index default_products(Offset nnz) {
    double most = limits_.max_work;
    if (!ranks_.started() && devices().machine().gpu != nullptr && devices().machine().gpu->simulated())
      most = std::min(most, limits_.max_simulated_work);
    return static_cast<Index>(
        std::clamp(most / static_cast<double>(std::max<Offset>(nnz, 1)), 1.0, double{kDefaultProducts}));
  }

  template <class T>
  void spmm(const Job& job, const std::shared_ptr<const Csr<T>>& a) {
    const Layout layout = options().layout == "col" ? Layout::col_major : Layout::row_major;
    for (const Index n : options().n_cols) {
      require_room(job.name, *a, n);
      problem(make_spmm_problem<T>({.name = job.name,
                                    .a = a,
                                    .n_cols = n,
                                    .alpha = static_cast<T>(options().alpha),
                                    .beta = static_cast<T>(options().beta),
                                    .b_layout = layout,
                                    .c_layout = layout}));
    }
  }

  template <class T>
  void spgemm(const Job& job, const std::shared_ptr<const Csr<T>>& a) {
    const Index rounds = options().mode == "chain" ? options().products.value_or(kDefaultRounds) : 1;
    require_room(job.name, *a, 1);
    if (!job.b.empty()) {
      const auto b = job.b == job.name ? a : load<T>(job.b);
      require_room(job.b, *b, 1);
      if (rounds > 1 && b->rows != b->cols && job.from_set) {
        progress_.say(fmt::format("{}: left out: a chain of products needs a square B", job.name));
        return;
      }
      products<T>(job, a, b, rounds, job.b == job.name ? "" : "times " + job.b);
    } else if (a->rows == a->cols) {
      products<T>(job, a, a, rounds, "");
    } else {
      const auto t = std::make_shared<const Csr<T>>(transpose(*a));
      if (square_products(*t) <= square_products(*a)) {
        products<T>(job, a, t, rounds, "A A^T");
      } else {
        products<T>(job, t, a, rounds, "A^T A");
      }
    }
  }

  /// C = A B, or a chain of it, for each place where C may have to be.
  template <class T, class M>
  void products(const Job& job, const M& a, const M& b, Index rounds, const std::string& form) {
    for (const std::string& place : options().destinations)
      problem(make_spgemm_problem<T>(job.name, a, b, value_named(kDestinations, place).value(), rounds),
              form);
  }

  /// Runs one problem; `form` says what was multiplied where that isn't plain.
  template <class Problem>
  void problem(const Problem& problem, const std::string& form = {}) {
    first_ = results_.rows.size();
    if (!ranks_.started()) {
      run_problem(problem, entries_of(Problem::kOp), devices().machine(), limits_, events(), results_);
      if (program_.count) count(problem);
    } else {
      // Those for one process have rank 0 and its processors for themselves: the other ranks sleep meanwhile.
      if (!options().ranks_only)
        run_problem(problem, entries_of(Problem::kOp, false), devices().machine(), limits_, events(),
                    results_);
      ranks_.tell(order_for(problem));
      on_ranks(problem);
    }
    std::ranges::stable_sort(std::span(results_.rows).subspan(first_), {},
                             [](const ResultRow& row) { return row.problem.round; });
    for (ResultRow& row : std::span(results_.rows).subspan(first_)) {
      std::string& options = row.problem.options;
      options = form + (form.empty() || options.empty() ? "" : ", ") + options;
    }
    if (!ranks_.started()) measure_copy_again(devices().machine().host, results_);
    if (!not_traced_ && devices_ != nullptr && devices_->machine().gpu != nullptr &&
        !devices_->machine().gpu->why_not_traced().empty()) {
      not_traced_ = true;
      results_.context.emplace_back("not_traced", devices_->machine().gpu->why_not_traced());
      progress_.say("for how long the GPU is busy is not known: " + results_.context.back().second);
    }
    findings_.keep(results_);
    first_ = results_.rows.size();
  }

  /// Kernels that were checked, not timed, are counted: their rows say what they ask of memory.
  template <class Problem>
  void count(const Problem& problem) {
    constexpr double kMostWork = 4e6;  // counting takes as long as several runs: seconds for this
    for (ResultRow& row : std::span(results_.rows).subspan(first_)) {
      const bool shown = row.status == Status::good && row.simulated && row.checked && row.problem.round <= 1;
      if (!shown || row.cost.work > kMostWork) continue;
      const Entry& entry = program_.registry.find(row.entry);
      Exec& exec = devices().machine().of(entry);
      progress_.doing("counting " + row.entry);
      try {
        const Counted counted = program_.count(one_product(entry, problem, exec), row.problem);
        if (counted.metrics.empty()) continue;
        row.metrics.insert(row.metrics.end(), counted.metrics.begin(), counted.metrics.end());
        row.add_note(counted.bound);
      } catch (const std::exception& error) {  // its check was good all the same
        row.add_note(fmt::format("not counted: {}", error.what()));
      }
    }
  }

  const Program& program_;
  const Effort& effort_;
  Ranks& ranks_;
  RunOptions limits_;
  std::vector<Part> parts_;
  const Part* part_;  ///< the one that is under way
  std::optional<Devices> own_devices_;
  Devices* devices_;
  Results results_;
  std::size_t first_ = 0;  ///< row of what is under way
  bool not_traced_ = false;
  bool together_ = false;  ///< all ranks are in the middle of a problem
  std::vector<std::string> errors_;
  Findings findings_;
  Progress progress_;
};

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

/// Both files, also where one of them cannot be written; then it throws.
void write_results(const RunArguments& arguments, const Results& results) {
  std::string failure;
  const auto write = [&](const std::string& path, const std::string& text) {
    try {
      if (!path.empty()) write_file(path, text);
    } catch (const Error& error) {
      failure = error.what();
    }
  };
  write(arguments.json, json_lines(to_json(results)));
  write(arguments.csv, to_csv(results));
  if (!failure.empty()) fail("{}", failure);
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

/// Files before the table, which may go into a closed pipe; and the table also where a file cannot be written.
void publish(const RunArguments& arguments, const Results& earlier, Results results) {
  if (!earlier.rows.empty()) results = put_together(earlier, results);
  relate_to_serial(results);
  try {
    write_results(arguments, results);
  } catch (const Error&) {
    show(results, arguments);
    throw;
  }
  show(results, arguments);
  require_metrics(arguments.metrics, results);
}

/// What was found out before the run was ended by `what`; nothing replaces the results of an earlier run.
void publish_part(const RunArguments& arguments, const Results& earlier, const Findings& findings,
                  const std::string& what) {
  Results part = findings.part("the run was ended by " + what);
  const auto tells = [](const ResultRow& row) { return row.checked || row.status == Status::failed; };
  if (std::none_of(part.rows.begin(), part.rows.end(), tells)) return;
  try {
    publish(arguments, earlier, std::move(part));
    fmt::print("the run was ended by {}: this is a part\n", what);
    std::fflush(stdout);
  } catch (const std::exception& error) {
    print_stderr("{}\n", error.what());
  }
}

int exit_code(const Run& run, const Results& results) {
  if (!run.errors().empty()) return kBadInput;
  if (results.count(Status::wrong) + results.count(Status::failed) > 0) return kWrongResult;
  return results.count(Status::good) > 0 ? kGood : kAllSkipped;
}

/// Runs all parts, and publishes what they have found out, once: a signal meanwhile waits for that, and one
/// before publishes a part. `complete` adds to the results what is found from all of them. Where nothing at
/// all could be done no file is written.
int carry_out(const Program& program, const RunArguments& arguments, Run& run,
              const std::function<void()>& complete) {
  if (!program.ranks->root()) {
    run.all();
    return kGood;
  }
  const Results earlier = earlier_results(arguments, run.results());
  std::mutex publishing;
  bool published = false;
  const auto once = [&](const auto& publish_it) {
    const std::lock_guard lock(publishing);
    if (!std::exchange(published, true)) publish_it();
  };
  const LastWords last_words([&](const std::string& signal) {
    end_ranks();
    once([&] { publish_part(arguments, earlier, run.findings(), signal); });
  });
  try {
    run.all();
  } catch (...) {
    once([&] { publish_part(arguments, earlier, run.findings(), "an error"); });
    throw;
  }
  Results& results = run.results();
  if (!run.errors().empty())
    results.context.emplace_back("errors", fmt::format("{}", fmt::join(run.errors(), "; ")));
  const auto lost = [](const ResultRow& row) { return row.status == Status::failed && !row.checked; };
  if (!run.errors().empty() && std::all_of(results.rows.begin(), results.rows.end(), lost)) return kBadInput;
  complete();
  once([&] { publish(arguments, earlier, results); });
  return exit_code(run, results);
}

/// Each step on a matrix that suits it.
int tour(const Program& program, const RunArguments& given) {
  require_tour(given, *program.ranks);
  RunArguments arguments = given;
  arguments.effort = tour_effort(given.effort);
  Devices devices(launch_of(arguments.effort));
  const Exec* const gpu = devices.machine().gpu;
  Run run(program, arguments.effort, tour_parts(program, arguments, gpu != nullptr && !gpu->simulated()),
          &devices);
  const int code = carry_out(program, arguments, run,
                             [&] { run.results().steps = tour_lines(program, run.parts(), run.results()); });
  if (run.results().steps.empty()) return code;
  fmt::print(
      "\nWhat the columns mean: docs/reading-tables.md. More of what was found out: --json FILE, --csv FILE, "
      "--all.\n");
  return code;
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
  if (program.ranks->root()) {
    require_sense(arguments);
    require_effect(arguments);
  }
  if (arguments.matrices.empty()) return tour(program, arguments);
  const std::vector<int>& ranks = arguments.problem.ranks;
  const bool starts = are_to_be_started(program, ranks, arguments.problem.ranks_started);
  if (arguments.problem.weak) {
    if (!starts && !program.ranks->started()) fail("--weak goes with --ranks, as in --ranks 4 --weak");
    grow(arguments, starts ? ranks.front() : program.ranks->size());
  }
  const std::vector<const Entry*> entries = chosen_entries(program, arguments);
  Part part{arguments, {}, entries, jobs_of(arguments)};
  if (starts) {
    if (std::none_of(entries.begin(), entries.end(), [](const Entry* e) { return e->needs.mpi; }))
      fail("--ranks: none of the entries chosen runs on ranks; `{} list` shows which do", program.name);
    return run_on_ranks(program, ranks.front(), arguments.json);
  }
  Run run(program, arguments.effort, {std::move(part)});
  return carry_out(program, arguments, run, [] {});
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
