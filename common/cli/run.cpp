// stages run: every chosen entry on every chosen matrix, checked and timed side by side.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/cli/commands.hpp"
#include "common/cli/inputs.hpp"
#include "common/cli/progress.hpp"
#include "common/cli/run_choice.hpp"
#include "common/cli/run_options.hpp"
#include "common/cli/sweep.hpp"
#include "common/cli/terminal.hpp"
#include "common/cli/tour.hpp"
#include "common/machines/devices.hpp"
#include "common/matrix/convert.hpp"
#include "common/matrix/error.hpp"

namespace stages {
namespace {

Mode mode_of(const std::string& name) {
  for (const Mode mode : {Mode::stream, Mode::chain}) {
    if (to_string(mode) == name) return mode;
  }
  return Mode::single;
}

/// Sum over columns of the square of their length, or over rows: the products of A A^T, and of A^T A.
template <class T>
double square_products(const Csr<T>& a) {
  double sum = 0;
  for (Index i = 0; i < a.rows; ++i)
    sum += static_cast<double>(a.row_nnz(i)) * static_cast<double>(a.row_nnz(i));
  return sum;
}

/// A problem of which a rank other than 0 knows what rank 0 said.
template <class Problem>
Problem ordered(const Order& order) {
  Problem problem;
  if constexpr (Problem::kOp == Op::spmv) {
    problem.mode = order.mode;
    problem.products = order.products;
  } else if constexpr (Problem::kOp == Op::spmm) {
    problem.n_cols = order.n_cols;
    problem.alpha = static_cast<typename Problem::Value>(order.alpha);
    problem.beta = static_cast<typename Problem::Value>(order.beta);
  } else {
    problem.destination = order.destination;
  }
  return problem;
}

template <class Problem>
Order order_for(const Problem& problem) {
  Order order{.op = Problem::kOp, .single_precision = std::is_same_v<typename Problem::Value, float>};
  if constexpr (Problem::kOp == Op::spmv) {
    order.mode = problem.mode;
    order.products = problem.products;
  } else if constexpr (Problem::kOp == Op::spmm) {
    order.n_cols = problem.n_cols;
    order.alpha = static_cast<double>(problem.alpha);
    order.beta = static_cast<double>(problem.beta);
  } else {
    order.destination = problem.destination;
  }
  return order;
}

KernelLaunch launch_of(const Effort& effort) {
  return effort.launch == "graph" ? KernelLaunch::graph : KernelLaunch::single;
}

class Run {
 public:
  Run(const Program& program, const Effort& effort, std::vector<Part> parts, Devices* devices = nullptr)
      : effort_(effort),
        ranks_(*program.ranks),
        limits_(run_options(effort)),
        parts_(std::move(parts)),
        part_(&parts_.front()),
        devices_(devices),
        progress_(count_runs(parts_)) {
    if (!ranks_.started()) {
      results_.context = run_context(program.arguments, this->devices().machine());
      return;
    }
    results_.context = run_context(program.arguments, machine_of_ranks());
    for (auto& fact : ranks_.exec().facts()) results_.context.push_back(std::move(fact));
  }

  /// Every rank.
  void all() {
    if (!ranks_.root()) return follow();
    for (Part& part : parts_) {
      part_ = &part;
      lead();
      if (part.jobs.empty() || part.arguments.problem.ranks.empty() || ranks_.started()) continue;
      try {
        sweep_ranks(part.words, part.arguments.problem, results_);
      } catch (const Error& error) {
        if (parts_.size() == 1) throw;
        part.missing = error.what();  // of several parts the others can be done
        progress_.say(part.missing);
      }
    }
    if (ranks_.started()) ranks_.tell({.stop = true});
  }

  Results& results() { return results_; }
  const std::vector<Part>& parts() const { return parts_; }

 private:
  void lead() {
    for (const Job& job : part_->jobs) {
      if (!std::any_of(job.ops.begin(), job.ops.end(), [&](Op op) { return !entries_of(op).empty(); }))
        continue;
      with_type(effort_.type, [&]<class T>() { matrix<T>(job); });
    }
    progress_.clear();
  }

  /// Ranks other than 0: take part in each problem that rank 0 tells of.
  void follow() {
    for (Order order = ranks_.tell({}); !order.stop; order = ranks_.tell({})) {
      with_type(order.single_precision ? ValueType::f32 : ValueType::f64, [&]<class T>() {
        if (order.op == Op::spmv) on_ranks(ordered<SpmvProblem<T>>(order));
        if (order.op == Op::spmm) on_ranks(ordered<SpmmProblem<T>>(order));
        if (order.op == Op::spgemm) on_ranks(ordered<SpgemmProblem<T>>(order));
      });
    }
  }

  /// The entries for several ranks, on all of them. Collective.
  template <class Problem>
  void on_ranks(const Problem& problem) {
    const auto entries = entries_of(Problem::kOp, true);
    const RunEvents events = ranks_.root() ? progress_.events() : RunEvents();
    run_problem(problem, entries, machine_of_ranks(), limits_, events, results_);
  }

  /// With the GPUs of all ranks only where an entry needs them: each process then takes memory on its own.
  Machine machine_of_ranks() {
    const auto needed = [](const Part& part) {
      return std::any_of(part.entries.begin(), part.entries.end(),
                         [](const Entry* e) { return e->needs.mpi && e->needs.gpu; });
    };
    return ranks_.machine(std::any_of(parts_.begin(), parts_.end(), needed));
  }

  const ProblemOptions& options() const { return part_->arguments.problem; }

  /// For entries of one process. Of several ranks only rank 0 comes here: the others have no business on the
  /// GPU that this one takes.
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
        for (const Entry* const entry : part.entries) {
          const bool asked = std::find(job.ops.begin(), job.ops.end(), entry->op) != job.ops.end();
          if (asked) count += entry->op == Op::spmm ? part.arguments.problem.n_cols.size() : 1;
        }
      }
    }
    return count;
  }

  template <class T>
  std::shared_ptr<const Csr<T>> load(const std::string& source) {
    progress_.doing("reading " + source);
    return std::make_shared<const Csr<T>>(load_matrix<T>(source, options().input, NonFinite::refused));
  }

  template <class T>
  void matrix(const Job& job) {
    const auto a = load<T>(job.name);
    for (const Op op : job.ops) {
      if (entries_of(op).empty()) continue;
      if (op == Op::spmv) spmv<T>(job, a);
      if (op == Op::spmm) spmm<T>(job, a);
      if (op == Op::spgemm) spgemm<T>(job, a);
    }
  }

  template <class T>
  void spmv(const Job& job, const std::shared_ptr<const Csr<T>>& a) {
    const Mode mode = mode_of(options().mode);
    if (mode == Mode::chain && a->rows != a->cols && job.from_set) {
      progress_.say(
          fmt::format("{}: left out: a chain of products needs a square matrix, and this one is {} x {}",
                      job.name, a->rows, a->cols));
      return;
    }
    const Index products = options().products.value_or(mode == Mode::single ? 1 : kDefaultProducts);
    problem(make_spmv_problem<T>(job.name, a, mode, products));
  }

  /// --alpha or --beta as a T.
  template <class T>
  static T scalar(const char* flag, double value) {
    if (std::abs(value) > static_cast<double>(std::numeric_limits<T>::max()))
      fail("{} {}: f32 ends at {:.2g}; take --type f64 or a smaller number", flag, value,
           std::numeric_limits<T>::max());
    return static_cast<T>(value);
  }

  template <class T>
  void spmm(const Job& job, const std::shared_ptr<const Csr<T>>& a) {
    const Layout layout = options().layout == "col" ? Layout::col_major : Layout::row_major;
    for (const Index n : options().n_cols) {
      problem(make_spmm_problem<T>({.name = job.name,
                                    .a = a,
                                    .n_cols = n,
                                    .alpha = scalar<T>("--alpha", options().alpha),
                                    .beta = scalar<T>("--beta", options().beta),
                                    .b_layout = layout,
                                    .c_layout = layout}));
    }
  }

  template <class T>
  void spgemm(const Job& job, const std::shared_ptr<const Csr<T>>& a) {
    if (!job.b.empty()) {
      const auto b = job.b == job.name ? a : load<T>(job.b);
      problem(make_spgemm_problem<T>(job.name, a, b, destination()),
              job.b == job.name ? "" : "times " + job.b);
    } else if (a->rows == a->cols) {
      problem(make_spgemm_problem<T>(job.name, a, a, destination()));
    } else {
      const auto t = std::make_shared<const Csr<T>>(transpose(*a));
      if (square_products(*t) <= square_products(*a)) {
        problem(make_spgemm_problem<T>(job.name, a, t, destination()), "A A^T");
      } else {
        problem(make_spgemm_problem<T>(job.name, t, a, destination()), "A^T A");
      }
    }
  }

  Destination destination() const {
    for (const Destination d : {Destination::distributed, Destination::one_gpu}) {
      if (to_string(d) == options().destination) return d;
    }
    return Destination::host;
  }

  /// Runs one problem; `form` says what was multiplied where that isn't plain.
  template <class Problem>
  void problem(const Problem& problem, const std::string& form = {}) {
    const std::size_t first = results_.rows.size();
    if (!ranks_.started()) {
      run_problem(problem, entries_of(Problem::kOp), devices().machine(), limits_, progress_.events(),
                  results_);
    } else {
      // Those for one process have rank 0 and its processors for themselves: the other ranks sleep meanwhile.
      if (!options().ranks_only)
        run_problem(problem, entries_of(Problem::kOp, false), devices().machine(), limits_,
                    progress_.events(), results_);
      ranks_.tell(order_for(problem));
      on_ranks(problem);
    }
    for (ResultRow& row : std::span(results_.rows).subspan(first)) {
      std::string& options = row.problem.options;
      options = form + (form.empty() || options.empty() ? "" : ", ") + options;
    }
  }

  const Effort& effort_;
  Ranks& ranks_;
  RunOptions limits_;
  std::vector<Part> parts_;
  const Part* part_;  ///< the one that is under way
  std::optional<Devices> own_devices_;
  Devices* devices_;
  Results results_;
  Progress progress_;
};

int exit_code(const Results& results) {
  if (results.count(Status::wrong) + results.count(Status::failed) > 0) return kWrongResult;
  return results.count(Status::good) > 0 ? kGood : kAllSkipped;
}

void show(const Results& results, const RunArguments& arguments) {
  const bool colour = wants_colour(stdout);
  const std::string scaling = to_scaling_table(results, colour);
  fmt::print("{}{}{}", to_table(results, colour, arguments.all), scaling.empty() ? "" : "\n", scaling);
  const std::string steps = to_step_table(results.steps, colour);
  if (!steps.empty()) fmt::print("\n{}", steps);
}

int finish(const RunArguments& arguments, Results& results) {
  relate_to_serial(results);
  show(results, arguments);
  if (!arguments.json.empty()) {
    write_file(arguments.json,
               to_json(results).dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
  if (!arguments.csv.empty()) write_file(arguments.csv, to_csv(results));
  return exit_code(results);
}

/// Runs all parts; what they found out stays with `run` where one of them ends in an error.
void run_all(const Program& program, const RunArguments& arguments, Run& run) {
  try {
    run.all();
  } catch (...) {
    // What is done is worth seeing, also where the rest cannot be had.
    if (!run.results().rows.empty() && program.ranks->root()) show(run.results(), arguments);
    throw;
  }
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
  run_all(program, arguments, run);
  run.results().steps = tour_lines(program, run.parts(), run.results());
  const int code = finish(arguments, run.results());
  fmt::print(
      "\nWhat the columns mean: docs/reading-tables.md. More of what was found out: --json FILE, --csv FILE, "
      "--all.\n");
  const bool ended = std::any_of(run.parts().begin(), run.parts().end(),
                                 [](const Part& p) { return !p.missing.empty() && !p.jobs.empty(); });
  return ended && code == kGood ? kWrongResult : code;
}

int work(const Program& program, const RunArguments& arguments) {
  if (program.ranks->root()) require_sense(arguments);
  if (arguments.matrices.empty()) return tour(program, arguments);
  const ProblemOptions& problem = arguments.problem;
  const bool sweeps = !problem.ranks.empty() && !program.ranks->started();
  if (sweeps) require_mpirun();
  const std::vector<std::string> words(program.arguments.begin() + 1, program.arguments.end());
  if (sweeps && problem.weak) {
    // Each number of ranks has its own problem, and runs the serial entries on it, too.
    Results results;
    results.context = run_context(program.arguments, Devices().machine());
    sweep_ranks(words, problem, results);
    return finish(arguments, results);
  }
  Part part{arguments, words, chosen_entries(program, arguments), jobs_of(arguments)};
  // With --ranks the entries for ranks come later, on these.
  if (sweeps) std::erase_if(part.entries, [](const Entry* e) { return e->needs.mpi; });
  Run run(program, arguments.effort, {std::move(part)});
  run_all(program, arguments, run);
  return program.ranks->root() ? finish(arguments, run.results()) : kGood;
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
