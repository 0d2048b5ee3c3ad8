// stages run: every chosen entry on every chosen matrix, checked and timed side by side.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>

#include "common/cli/commands.hpp"
#include "common/cli/devices.hpp"
#include "common/cli/inputs.hpp"
#include "common/cli/progress.hpp"
#include "common/cli/sweep.hpp"
#include "common/cli/terminal.hpp"
#include "common/matrix/builtin.hpp"
#include "common/matrix/convert.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/nearest.hpp"

namespace stages {
namespace {

constexpr Op kOps[] = {Op::spmv, Op::spmm, Op::spgemm};
constexpr Index kDefaultProducts = 100;  ///< vectors in stream and chain mode

struct RunArguments {
  std::vector<std::string> matrices;
  std::string b;
  std::vector<std::string> ops;
  std::vector<std::string> stages;
  std::string filter;
  std::vector<Index> n_cols = {32};
  ValueType type = ValueType::f32;
  double alpha = 1;
  double beta = 0;
  std::string layout = "row";
  std::string mode = "single";
  std::optional<Index> products;
  bool quick = false;
  std::optional<double> max_noise_percent;
  std::optional<double> time_budget;
  std::optional<double> max_memory_gb;
  std::optional<double> max_work;
  std::optional<double> max_seconds;
  std::string cache = "hot";
  std::string check = "full";
  std::string destination = "host";
  std::vector<int> ranks;
  bool weak = false;
  bool ranks_only = false;
  std::string launch = "single";
  std::uint64_t seed = 1;
  std::string json;
  std::string csv;
  InputOptions input;
};

/// --quick is for a look, and for tests: few samples, and the reference recomputes fewer rows.
RunOptions run_options(const RunArguments& arguments) {
  RunOptions options;
  if (arguments.quick) {
    options.max_noise = 0.2;
    options.time_budget = 0.02;
    options.min_samples = 3;
    options.max_samples = 20;
    options.max_work = 2e7;
    options.check.budget = 2'000'000;
  }
  if (arguments.max_noise_percent) options.max_noise = *arguments.max_noise_percent / 100;
  if (arguments.time_budget) options.time_budget = *arguments.time_budget;
  if (arguments.max_memory_gb) options.max_memory = *arguments.max_memory_gb * 1e9;
  if (arguments.max_work) options.max_work = *arguments.max_work;
  if (arguments.max_seconds) options.max_seconds = *arguments.max_seconds;
  options.cold = arguments.cache == "cold";
  options.check_once = arguments.check == "once";
  options.check.seed = arguments.seed;
  return options;
}

/// The directories or numbers that --stage names, as whole stage names. Throws Error for one that is not
/// there.
std::vector<std::string> chosen_stages(const Program& program, const std::vector<std::string>& wanted) {
  std::vector<std::string_view> known;
  for (const Entry& entry : program.registry.entries()) {
    if (known.empty() || known.back() != entry.stage()) known.push_back(entry.stage());
  }
  std::vector<std::string> out;
  for (const std::string& name : wanted) {
    const auto found = std::find_if(known.begin(), known.end(), [&](std::string_view stage) {
      return stage == name || stage.substr(0, stage.find('_')) == name;
    });
    if (found == known.end()) {
      for (const LeftOut& left : program.left_out) {
        if (left.name == name || left.name.substr(0, left.name.find('_')) == name)
          fail("--stage {}: left out of this build: it needs {}", name, left.needs);
      }
      fail("--stage: there is no stage '{}'; {}", name, nearest_names(name, known));
    }
    out.emplace_back(*found);
  }
  return out;
}

/// The entries that --op, --stage and --filter leave, in course order. Throws Error where none is left.
std::vector<const Entry*> chosen_entries(const Program& program, const RunArguments& arguments) {
  const std::vector<std::string> stages = chosen_stages(program, arguments.stages);
  std::optional<std::regex> filter;
  try {
    if (!arguments.filter.empty()) filter.emplace(arguments.filter);
  } catch (const std::regex_error& error) {
    fail("--filter '{}': no regular expression: {}", arguments.filter, error.what());
  }
  const auto among = [](const std::vector<std::string>& chosen, std::string_view name) {
    return chosen.empty() || std::find(chosen.begin(), chosen.end(), name) != chosen.end();
  };
  std::vector<const Entry*> out;
  for (const Entry& entry : program.registry.entries()) {
    if (among(arguments.ops, to_string(entry.op)) && among(stages, entry.stage()) &&
        (!filter || std::regex_search(entry.name, *filter))) {
      out.push_back(&entry);
    }
  }
  if (out.empty()) {
    fail("no entry is left by --op, --stage and --filter; `{} list` shows the {} that there are",
         program.name, program.registry.entries().size());
  }
  return out;
}

/// A matrix and what is to be done with it.
struct Job {
  std::string name;  ///< as the user gave it
  std::string b;     ///< the other matrix of SpGEMM; empty: A squared
  std::vector<Op> ops;
  bool from_set = false;  ///< it is here because no -m was given
};

std::vector<Op> meant_ops(const BuiltinMatrix& matrix) {
  std::vector<Op> out;
  for (const Op op : kOps) {
    if (matrix.meant_for(to_string(op))) out.push_back(op);
  }
  return out;
}

std::vector<Op> operations(const RunArguments& arguments) {
  if (arguments.ops.empty() && !arguments.b.empty()) return {Op::spgemm};
  std::vector<Op> out;
  for (const Op op : kOps) {
    const auto& ops = arguments.ops;
    if (ops.empty() || std::find(ops.begin(), ops.end(), to_string(op)) != ops.end()) out.push_back(op);
  }
  return out;
}

/// What -m, -b and --op ask for; without -m the built-in set, each matrix with the operations it is meant
/// for.
std::vector<Job> jobs_of(const RunArguments& arguments) {
  constexpr std::string_view kBuiltin = "data:";
  const std::vector<Op> wanted = operations(arguments);
  const auto both = [&](const std::vector<Op>& meant) {
    std::vector<Op> out;
    std::set_intersection(meant.begin(), meant.end(), wanted.begin(), wanted.end(), std::back_inserter(out));
    return out;
  };
  std::vector<Job> jobs;
  if (arguments.matrices.empty()) {
    for (const BuiltinMatrix& m : builtin_set()) {
      const std::string b = arguments.b.empty() ? std::string(m.b_spec) : arguments.b;
      jobs.push_back({fmt::format("{}{}", kBuiltin, m.name), b, both(meant_ops(m)), true});
    }
  }
  for (const std::string& name : arguments.matrices) {
    Job job{name, arguments.b, wanted};
    if (name.starts_with(kBuiltin)) {
      const BuiltinMatrix& m = builtin(std::string_view(name).substr(kBuiltin.size()));
      if (job.b.empty()) job.b = m.b_spec;
      if (arguments.ops.empty()) job.ops = both(meant_ops(m));
    }
    jobs.push_back(std::move(job));
  }
  for (const Job& job : jobs) {
    require_matrix(job.name);
    if (!job.b.empty()) require_matrix(job.b);
  }
  return jobs;
}

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

class Run {
 public:
  Run(const Program& program, const RunArguments& arguments)
      : arguments_(arguments),
        ranks_(*program.ranks),
        options_(run_options(arguments)),
        entries_(chosen_entries(program, arguments)),
        jobs_(jobs_of(arguments)),
        progress_(count_runs()) {
    if (!ranks_.started()) {
      results_.context = run_context(program.arguments, devices().machine());
      // With --ranks the entries for ranks come later, on these.
      if (!arguments.ranks.empty()) std::erase_if(entries_, [](const Entry* e) { return e->needs.mpi; });
      return;
    }
    results_.context = run_context(program.arguments, machine_of_ranks());
    for (auto& fact : ranks_.exec().facts()) results_.context.push_back(std::move(fact));
  }

  /// Every rank.
  void all() {
    if (!ranks_.root()) return follow();
    lead();
    if (ranks_.started()) ranks_.tell({.stop = true});
  }

  Results& results() { return results_; }

 private:
  void lead() {
    for (const Job& job : jobs_) {
      if (!std::any_of(job.ops.begin(), job.ops.end(), [&](Op op) { return !entries_of(op).empty(); }))
        continue;
      with_type(arguments_.type, [&]<class T>() { matrix<T>(job); });
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
    run_problem(problem, entries, machine_of_ranks(), options_, events, results_);
  }

  /// With the GPUs of all ranks only where an entry needs them: each process then takes memory on its own.
  Machine machine_of_ranks() {
    return ranks_.machine(std::any_of(entries_.begin(), entries_.end(),
                                      [](const Entry* e) { return e->needs.mpi && e->needs.gpu; }));
  }

  /// For entries of one process. Of several ranks only rank 0 comes here: the others have no business on the
  /// GPU that this one takes.
  const Devices& devices() {
    if (!devices_)
      devices_.emplace(arguments_.launch == "graph" ? KernelLaunch::graph : KernelLaunch::single);
    return *devices_;
  }

  /// Of the entries of `op` those that run on the ranks of MPI, or the others.
  std::vector<const Entry*> entries_of(Op op, bool mpi) const {
    std::vector<const Entry*> out = entries_of(op);
    std::erase_if(out, [&](const Entry* e) { return e->needs.mpi != mpi; });
    return out;
  }

  std::vector<const Entry*> entries_of(Op op) const {
    std::vector<const Entry*> out;
    std::copy_if(entries_.begin(), entries_.end(), std::back_inserter(out),
                 [&](const Entry* e) { return e->op == op; });
    return out;
  }

  std::size_t count_runs() const {
    std::size_t count = 0;
    for (const Job& job : jobs_) {
      for (const Op op : job.ops)
        count += entries_of(op).size() * (op == Op::spmm ? arguments_.n_cols.size() : 1);
    }
    return count;
  }

  template <class T>
  std::shared_ptr<const Csr<T>> load(const std::string& source) {
    progress_.doing("reading " + source);
    return std::make_shared<const Csr<T>>(load_matrix<T>(source, arguments_.input, NonFinite::refused));
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
    const Mode mode = mode_of(arguments_.mode);
    if (mode == Mode::chain && a->rows != a->cols && job.from_set) {
      progress_.say(
          fmt::format("{}: left out: a chain of products needs a square matrix, and this one is {} x {}",
                      job.name, a->rows, a->cols));
      return;
    }
    const Index products = arguments_.products.value_or(mode == Mode::single ? 1 : kDefaultProducts);
    problem(make_spmv_problem<T>(job.name, a, mode, products));
  }

  template <class T>
  void spmm(const Job& job, const std::shared_ptr<const Csr<T>>& a) {
    const Layout layout = arguments_.layout == "col" ? Layout::col_major : Layout::row_major;
    for (const Index n : arguments_.n_cols) {
      problem(make_spmm_problem<T>({.name = job.name,
                                    .a = a,
                                    .n_cols = n,
                                    .alpha = static_cast<T>(arguments_.alpha),
                                    .beta = static_cast<T>(arguments_.beta),
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
      if (to_string(d) == arguments_.destination) return d;
    }
    return Destination::host;
  }

  /// Runs one problem; `form` says what was multiplied where that isn't plain.
  template <class Problem>
  void problem(const Problem& problem, const std::string& form = {}) {
    const std::size_t first = results_.rows.size();
    if (!ranks_.started()) {
      run_problem(problem, entries_of(Problem::kOp), devices().machine(), options_, progress_.events(),
                  results_);
    } else {
      // Those for one process have rank 0 and its processors for themselves: the other ranks sleep meanwhile.
      if (!arguments_.ranks_only)
        run_problem(problem, entries_of(Problem::kOp, false), devices().machine(), options_,
                    progress_.events(), results_);
      ranks_.tell(order_for(problem));
      on_ranks(problem);
    }
    for (ResultRow& row : std::span(results_.rows).subspan(first)) {
      std::string& options = row.problem.options;
      options = form + (form.empty() || options.empty() ? "" : ", ") + options;
    }
  }

  const RunArguments& arguments_;
  Ranks& ranks_;
  RunOptions options_;
  std::vector<const Entry*> entries_;
  std::vector<Job> jobs_;
  std::optional<Devices> devices_;
  Results results_;
  Progress progress_;
};

int exit_code(const Results& results) {
  if (results.count(Status::wrong) + results.count(Status::failed) > 0) return kWrongResult;
  return results.count(Status::good) > 0 ? kGood : kAllSkipped;
}

void require_sense(const RunArguments& arguments) {
  if (arguments.mode == "single" && arguments.products.value_or(1) != 1) {
    fail("--products {}: a single product is one; give --mode stream or --mode chain with it",
         *arguments.products);
  }
  if (arguments.weak && arguments.ranks.empty()) fail("--weak goes with --ranks, as in --ranks 1,2,4 --weak");
  if (!arguments.json.empty()) require_writable("--json", arguments.json);
  if (!arguments.csv.empty()) require_writable("--csv", arguments.csv);
  if (!arguments.json.empty() && arguments.json == arguments.csv)
    fail("--json and --csv both name {}; give two files", arguments.json);
}

void show(const Results& results) {
  const bool colour = wants_colour(stdout);
  const std::string scaling = to_scaling_table(results, colour);
  fmt::print("{}{}{}", to_table(results, colour), scaling.empty() ? "" : "\n", scaling);
}

/// The command line for `ranks` ranks: without what this process does itself, and in weak scaling with the
/// matrices made larger.
std::vector<std::string> on_ranks(const Program& program, const RunArguments& arguments, int ranks) {
  std::vector<std::string> words;
  bool scaled = false;
  for (std::size_t k = 1; k < program.arguments.size(); ++k) {
    const std::string& word = program.arguments[k];
    const std::string flag = word.substr(0, word.find('='));
    if (flag == "--weak") continue;
    if (flag == "--ranks" || flag == "--json" || flag == "--csv") {
      k += flag.size() == word.size();  // the value is the next word
      continue;
    }
    words.push_back(arguments.weak ? scaled_spec(word, ranks, scaled) : word);
  }
  if (arguments.weak && !scaled) {
    fail(
        "--weak: no size grows with the ranks; write xR behind the one that does, as in "
        "-m gen:uniform:rows=1e5xR,cols=1e5xR,per_row=8");
  }
  if (!arguments.weak) words.push_back("--ranks-only");
  return words;
}

/// Weak scaling is about equal shares: says where they aren't. The problems of each number of ranks come in
/// the order of the command line.
void require_equal_shares(const Results& results) {
  std::map<int, std::vector<ProblemFacts>> problems;  // by ranks
  for (const ResultRow& row : results.rows) {
    auto& known = problems[row.ranks];
    const auto same = [&](const ProblemFacts& p) { return same_problem(p, row.problem); };
    if (row.mpi && std::none_of(known.begin(), known.end(), same)) known.push_back(row.problem);
  }
  const auto share = [](const ProblemFacts& p, int ranks) {
    return static_cast<double>(p.multiplications) / ranks;
  };
  const auto& [fewest, first] = *problems.begin();
  for (const auto& [ranks, known] : problems) {
    for (std::size_t k = 0; k < std::min(known.size(), first.size()); ++k) {
      const double here = share(known[k], ranks), before = share(first[k], fewest);
      if (std::abs(here - before) > 0.1 * before) {
        fmt::print(stderr,
                   "note: --weak: {} has {} products a rank, and {} has {}; they should be the same\n",
                   known[k].matrix, format_count(here), first[k].matrix, format_count(before));
      }
    }
  }
}

/// --ranks: the serial entries here, then all numbers of ranks.
void run_sweep(const Program& program, const RunArguments& arguments, Results& results) {
  Sweep wanted;
  wanted.ranks = arguments.ranks;
  std::sort(wanted.ranks.begin(), wanted.ranks.end());
  wanted.ranks.erase(std::unique(wanted.ranks.begin(), wanted.ranks.end()), wanted.ranks.end());
  for (const int ranks : wanted.ranks) wanted.arguments.push_back(on_ranks(program, arguments, ranks));
  sweep(wanted, results);
  if (arguments.weak && !results.rows.empty()) require_equal_shares(results);
}

int finish(const RunArguments& arguments, Results& results) {
  relate_to_serial(results);
  show(results);
  if (!arguments.json.empty()) {
    write_file(arguments.json,
               to_json(results).dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
  if (!arguments.csv.empty()) write_file(arguments.csv, to_csv(results));
  return exit_code(results);
}

int work(const Program& program, const RunArguments& given) {
  RunArguments arguments = given;
  const bool sweeps = !arguments.ranks.empty() && !program.ranks->started();
  if (program.ranks->root()) require_sense(arguments);
  if (sweeps) require_mpirun();
  if (sweeps && arguments.weak) {
    // Each number of ranks has its own problem, and runs the serial entries on it, too.
    Results results;
    results.context = run_context(program.arguments, Devices().machine());
    run_sweep(program, arguments, results);
    return finish(arguments, results);
  }
  Run run(program, arguments);
  try {
    run.all();
    if (sweeps) run_sweep(program, arguments, run.results());
  } catch (...) {
    // What is done is worth seeing, also where the rest cannot be had.
    if (!run.results().rows.empty() && program.ranks->root()) show(run.results());
    throw;
  }
  return program.ranks->root() ? finish(arguments, run.results()) : kGood;
}

/// 4e9, where {:g} says 4e+09.
std::string short_number(double value) {
  std::string text = fmt::format("{:g}", value);
  if (const std::size_t plus = text.find("e+"); plus != std::string::npos)
    text.erase(plus + 1, text[plus + 2] == '0' ? 2 : 1);
  return text;
}

void add_choice_options(CLI::App& command, RunArguments& a) {
  command
      .add_option(
          "-m,--matrix", a.matrices,
          "Matrices: Matrix Market files (.mtx, .mtx.gz), gen:SPEC or data:NAME; without it the built-in set")
      ->type_name("MATRIX ..")
      ->group("What to run");
  command
      .add_option("-b,--matrix-b", a.b,
                  "The matrix that SpGEMM multiplies each -m by; without it A by itself, or a "
                  "rectangular A by its transpose, on the side where that is cheaper")
      ->type_name("MATRIX")
      ->group("What to run");
  command.add_option("--op", a.ops, "Operations: spmv, spmm, spgemm (several with commas); default all")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"spmv", "spmm", "spgemm"}))
      ->type_name("OP,..")
      ->group("What to run");
  command.add_option("--stage", a.stages, "Only these stages, by number or name; vendor for the libraries")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("01,03")
      ->group("What to run");
  command.add_option("--filter", a.filter, "Only entries whose name matches")
      ->type_name("REGEX")
      ->group("What to run");
}

void add_problem_options(CLI::App& command, RunArguments& a) {
  const char* const group = "The problem";
  command.add_option("--n-cols", a.n_cols, "SpMM: columns of B (several with commas)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N,..")
      ->default_str("32")
      ->group(group);
  command.add_option("--alpha", a.alpha, "SpMM: C = alpha A B + beta C")
      ->type_name("X")
      ->capture_default_str()
      ->group(group);
  command.add_option("--beta", a.beta, "SpMM: see --alpha")
      ->type_name("X")
      ->capture_default_str()
      ->group(group);
  command.add_option("--layout", a.layout, "SpMM: B and C stored by rows (row) or by columns (col)")
      ->check(CLI::IsMember({"row", "col"}))
      ->type_name("row|col")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--mode", a.mode,
                  "SpMV: a single product, a stream of independent vectors, or a chain in which each "
                  "product needs the one before it")
      ->check(CLI::IsMember({"single", "stream", "chain"}))
      ->type_name("MODE")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--products", a.products,
                  fmt::format("SpMV: vectors in a stream or chain [{}]", kDefaultProducts))
      ->check(CLI::Range(1, 1 << 24))
      ->type_name("K")
      ->group(group);
  command
      .add_option("--destination", a.destination,
                  "SpGEMM on several ranks: C on rank 0's host, left distributed, or on rank 0's GPU")
      ->check(CLI::IsMember({"host", "distributed", "one-gpu"}))
      ->capture_default_str()
      ->group(group);
  command.add_option("--seed", a.seed, "Seed of the operands and of the rows that the check samples")
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
}

void add_rank_options(CLI::App& command, RunArguments& a) {
  const char* const group = "Several processes";
  command
      .add_option("--ranks", a.ranks,
                  "Start the entries for several ranks by mpirun, on each of these numbers in turn")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 4096))
      ->type_name("1,2,4")
      ->group(group);
  command
      .add_flag("--weak", a.weak,
                "With --ranks: sizes written with xR, as in rows=1e5xR, grow with the ranks")
      ->group(group);
  command.add_flag("--ranks-only", a.ranks_only, "Only entries for several ranks")->group("");
}

void add_effort_options(CLI::App& command, RunArguments& a) {
  const char* const group = "How long and how much";
  const RunOptions defaults;
  command
      .add_flag(
          "--quick", a.quick,
          "A look: few samples, low limits; of large results a smaller part is compared element by element")
      ->group(group);
  command
      .add_option("--max-noise", a.max_noise_percent,
                  fmt::format("Stop sampling when the median is known to this many percent [{:g}]",
                              100 * defaults.max_noise))
      ->check(CLI::PositiveNumber)
      ->type_name("PCT")
      ->group(group);
  command
      .add_option("--time-budget", a.time_budget,
                  fmt::format("Seconds of samples for an entry on a problem [{:g}]", defaults.time_budget))
      ->check(CLI::NonNegativeNumber)
      ->type_name("S")
      ->group(group);
  command
      .add_option("--max-memory", a.max_memory_gb,
                  "Skip entries that need more memory [half of what is free]")
      ->check(CLI::PositiveNumber)
      ->type_name("GB")
      ->group(group);
  command
      .add_option(
          "--max-work", a.max_work,
          "Skip entries that take more elementary steps a run [" + short_number(defaults.max_work) + "]")
      ->check(CLI::PositiveNumber)
      ->type_name("N")
      ->group(group);
  command
      .add_option("--max-seconds", a.max_seconds,
                  "Skip entries that take longer for one run, which the first run shows [no limit]")
      ->check(CLI::PositiveNumber)
      ->type_name("S")
      ->group(group);
  command
      .add_option(
          "--cache", a.cache,
          "hot: data of the run before may be in the caches; cold: they are flushed before each sample")
      ->check(CLI::IsMember({"hot", "cold"}))
      ->type_name("hot|cold")
      ->capture_default_str()
      ->group(group);
  command
      .add_option(
          "--check", a.check,
          "full: two kinds of values and four runs before timing; once: only what the timed runs leave, for "
          "large problems of entries that were checked on smaller ones")
      ->check(CLI::IsMember({"full", "once"}))
      ->type_name("full|once")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--launch", a.launch,
                  "Kernels of a timed run go to the GPU one by one (single), or as a replayed CUDA graph")
      ->check(CLI::IsMember({"single", "graph"}))
      ->type_name("single|graph")
      ->capture_default_str()
      ->group(group);
}

}  // namespace

void add_run_command(CLI::App& app, const Program& program, Work& chosen) {
  CLI::App* const command =
      app.add_subcommand("run", "Check and time entries side by side, and show a table");
  const auto arguments = std::make_shared<RunArguments>();
  add_choice_options(*command, *arguments);
  add_problem_options(*command, *arguments);
  add_type_option(*command, arguments->type, "Type of the values");
  command->get_option("--type")->group("The problem");
  add_effort_options(*command, *arguments);
  add_rank_options(*command, *arguments);
  command->add_option("--json", arguments->json, "Write everything that was found out to this file")
      ->type_name("FILE")
      ->group("Results");
  command->add_option("--csv", arguments->csv, "Write one line a result to this file")
      ->type_name("FILE")
      ->group("Results");
  add_input_options(*command, arguments->input);
  command->footer(
      examples(program, {{"run --quick", "a look at everything, on the built-in matrices"},
                         {"run -m web.mtx.gz road.mtx --op spmv,spmm", "files of yours"},
                         {"run -m a.mtx -b b.mtx", "the product of two sparse matrices"},
                         {"run -m gen:fixed:n=1024,zeros=0.8 --op spmv --mode chain --products 1000",
                          "1000 dependent products"},
                         {"run --stage 01,vendor --filter 'csr|eigen' --json out.json",
                          "a choice of entries, results to a file"}}));
  command->callback([&program, &chosen, arguments] {
    chosen = [&program, arguments] { return work(program, *arguments); };
  });
}

}  // namespace stages
