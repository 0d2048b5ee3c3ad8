// stages multiply: one product by one entry, the result to a file.

#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "common/cli/inputs.hpp"
#include "common/cli/orders.hpp"
#include "common/cli/places.hpp"
#include "common/cli/program.hpp"
#include "common/cli/start_ranks.hpp"
#include "common/cli/terminal.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/generate.hpp"
#include "common/matrix/nearest.hpp"

namespace stages {
namespace {

struct MultiplyOptions {
  std::string entry, a, b, output, type = "f64";
  std::vector<int> ranks;  ///< one, or none
  bool ranks_started = false, no_check = false;
  std::optional<double> max_memory_gb;
  ReadOptions input;
};

/// Whether B is a dense matrix: a file in array format.
bool is_dense(const std::string& b) {
  return !is_matrix_spec(b) && read_matrix_market_header(b).format == MatrixMarketHeader::Format::array;
}

/// Throws Error unless B is what the entry multiplies by.
void require_matching_b(const Program& program, const Entry& entry, const std::string& b) {
  const bool dense = is_dense(b);
  const auto reject = [&](const char* what, const char* makes, Op op) {
    std::vector<std::string_view> names;
    for (const Entry& e : program.registry.entries())
      if (e.op == op) names.push_back(e.name);
    fail("{}: {}, which makes the product {}, and {} is an entry for {}; for it {}", b, what, makes,
         entry.name, to_string(entry.op),
         names.empty() ? "this program has none" : nearest_names(entry.name, names));
  };
  if (!dense && entry.op != Op::spgemm) reject("is a sparse matrix", "sparse times sparse", Op::spgemm);
  if (dense && entry.op == Op::spgemm) reject("is a dense matrix", "sparse times dense", Op::spmm);
  if (dense && entry.op == Op::spmv && read_matrix_market_header(b).cols != 1)
    reject("has more than one column", "sparse times dense", Op::spmm);
}

template <class Matrix>
std::string describe(const Matrix& c) {
  if constexpr (requires { c.nnz(); }) return fmt::format("{} x {}, {} non-zeros", c.rows, c.cols, c.nnz());
  return fmt::format("{} x {}, dense", c.rows, c.cols);
}

/// The result, and the seconds of the run. Every rank of the machine; the result is rank 0's.
template <class Problem>
std::pair<typename Problem::Result, double> product(const Machine& machine, const Entry& entry,
                                                    const Problem& problem,
                                                    const typename Problem::Operands& operands) {
  Exec& exec = machine.of(entry);
  const auto plan = entry.on<Problem>().prepare(problem, exec);
  plan->load(operands);
  plan->reset();
  const double seconds = exec.time([&] { plan->run(); });
  return {plan->fetch(), seconds};
}

/// Multiplies, checks, and writes only what passed.
template <class Problem>
int multiply(const Program& program, const MultiplyOptions& options, const Entry& entry,
             const Problem& problem, const typename Problem::Operands& operands) {
  // The other ranks are led through it, or have nothing to do.
  if (program.ranks.started()) program.ranks.tell(entry.needs.mpi ? order_for(problem) : Order{.stop = true});
  Places places(program.ranks);
  const Machine machine = entry.needs.mpi ? places.all(entry.needs.gpu) : places.alone();
  RunOptions limits;
  limits.max_work = std::numeric_limits<double>::infinity();
  limits.check_once = true;
  if (options.max_memory_gb) limits.max_memory = *options.max_memory_gb * 1e9;
  const std::string reason = refusal(entry, problem, machine, limits);
  if (!reason.empty()) fail("{}: {}", entry.name, reason);

  const auto [c, seconds] = product(machine, entry, problem, operands);
  std::string checked = "not checked";
  if (!options.no_check) {
    const CheckReport report = verify(problem, operands, c, ValueKind::real, entry.claims);
    if (!report.passed()) {
      print_stderr("{} computed a wrong result, and nothing was written: {}\n", entry.name, report.failure);
      return kWrongResult;
    }
    const std::string nothing = report.void_because();
    if (!nothing.empty()) fail("{}: {}, or write it as it is by --no-check", entry.name, nothing);
    const std::string open = left_open(report);
    checked = "checked" + (open.empty() ? "" : ": " + open);
  }
  write_matrix_market(options.output, c);
  const std::string time =
      machine.of(entry).simulated() ? ", not timed (on the executor)" : " in " + format_seconds(seconds);
  print_about(options.output,
              fmt::format("{}: {}, by {}{}{}, {}", printable(options.output), describe(c), entry.name,
                          entry.needs.mpi ? fmt::format(" on {}", program.ranks.size()) : "", time, checked));
  return kGood;
}

template <class T>
int multiply_as(const Program& program, const MultiplyOptions& options, const Entry& entry) {
  // A product of NaN is NaN, which the check rejects by design.
  const ReadOptions input = options.no_check ? options.input : finite(options.input);
  const auto a = std::make_shared<const Csr<T>>(load_matrix<T>(options.a, input));
  // Seen with 150 million rows and one entry: row pointers of A, B, C and what C is compared with.
  // Where a GPU, or the executor, does each row something is done for each of them.
  constexpr double kLineBytes = 24, kMost = 4e9, kMostOfGpu = 1e9;
  const double most = options.max_memory_gb ? *options.max_memory_gb * 1e9
                      : entry.needs.gpu     ? kMostOfGpu
                                            : kMost;
  require_room_for_lines(options.a, *a, kLineBytes, most);
  const std::string name = fmt::format("{} times {}", options.a, options.b);
  if (entry.op == Op::spgemm) {
    const auto b = std::make_shared<const Csr<T>>(load_matrix<T>(options.b, input));
    require_room_for_lines(options.b, *b, kLineBytes, most);
    return multiply(program, options, entry, make_spgemm_problem<T>(name, a, b), {a->values, b->values});
  }
  Dense<T> b = load_dense<T>(options.b, input);
  require_product(name, a->rows, a->cols, b.rows, b.cols);
  if (entry.op == Op::spmv)
    return multiply(program, options, entry, make_spmv_problem<T>(name, a), {std::move(b)});
  const Index n_cols = b.cols;
  return multiply(
      program, options, entry,
      make_spmm_problem<T>({.name = name, .a = a, .n_cols = n_cols, .b_layout = Layout::col_major}),
      {std::move(b), {}});
}

int work(const Program& program, const MultiplyOptions& options) {
  const Entry& entry = program.registry.find(options.entry);
  if (!program.ranks.root()) {  // takes part in what rank 0 tells of
    const Order order = program.ranks.tell({});
    if (order.stop) return kGood;
    with_ordered(order, [&](const auto& problem) {
      product(program.ranks.machine(entry.needs.gpu), entry, problem, {});
    });
    return kGood;
  }
  require_matrix(options.a);
  require_matrix(options.b);
  require_matching_b(program, entry, options.b);
  require_writable("--output", options.output, {options.a, options.b});
  if (are_to_be_started(program, options.ranks, options.ranks_started)) {
    if (!entry.needs.mpi)
      fail("--ranks: {} runs on one process; `{} list` shows which entries run on ranks", entry.name,
           program.name);
    return run_on_ranks(program, options.ranks.front(), options.output);
  }
  return with_type(options.type, [&]<class T>() { return multiply_as<T>(program, options, entry); });
}

}  // namespace

void add_multiply_command(CommandLine& line, const Program& program) {
  Command command = line.add("multiply", "Multiply two matrices by one entry and write the result");
  const auto options = std::make_shared<MultiplyOptions>();
  command.option("A", options->a, "The sparse matrix: a Matrix Market file, gen:SPEC or data:NAME",
                 {.required = true});
  command.option(
      "B", options->b,
      "Coordinate format or a spec: sparse times sparse; array format: times a vector or a dense matrix",
      {.required = true});
  command.option("--with", options->entry, "The entry that multiplies, as `list` names it",
                 {.type = "ENTRY", .required = true});
  command.option("-o,--output", options->output, "File to write; compressed if its name ends in .gz",
                 {.type = "FILE", .required = true});
  command.option("--ranks", options->ranks,
                 "Start an entry for several ranks by mpirun, on this number of them",
                 {.type = "N", .least = 1, .most = 4096, .commas = true});
  command.flag("--ranks-started", options->ranks_started, "This is one of the ranks that --ranks has started",
               {.hidden = true});
  add_type_option(command, options->type, "Type in which to compute");
  command.flag("--no-check", options->no_check,
               "Do not check the result (a wrong one is never written otherwise)");
  command.option("--max-memory", options->max_memory_gb,
                 "Refuse if it needs more memory [half of what is free]", {.type = "GB", .positive = true});
  add_input_options(command, options->input);
  command.footer([&program] {
    return examples(
        program,
        {{"multiply --with 01_cpu_serial/gustavson_dense a.mtx b.mtx -o c.mtx", "sparse times sparse"},
         {"multiply --with 01_cpu_serial/csr_spmv a.mtx x.mtx -o y.mtx", "times a vector, in array format"},
         {"multiply --with 02_mpi/scatter_gather --ranks 4 a.mtx b.mtx -o c.mtx", "by four processes"}});
  });
  command.does([&program, options] { return work(program, *options); });
}

}  // namespace stages
