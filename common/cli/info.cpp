// stages info: what a matrix looks like, and what it costs to square it; without one, what this machine is.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/cli/inputs.hpp"
#include "common/cli/machines/devices.hpp"
#include "common/cli/program.hpp"
#include "common/cli/terminal.hpp"
#include "common/harness/machine.hpp"
#include "common/harness/operands.hpp"
#include "common/harness/results.hpp"
#include "common/harness/runner.hpp"
#include "common/matrix/convert.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/picture.hpp"
#include "common/matrix/statistics.hpp"

namespace stages {
namespace {

using nlohmann::json;

struct InfoOptions {
  std::string source;
  int n_cols = 32;
  ReadOptions input;
  bool json = false;
  std::string picture, rows;
};

std::string percent(double share) {
  const double p = 100 * share;
  if (p == 0 || p == 100) return fmt::format("{:.0f} %", p);
  return fmt::format("{:.{}f} %", p, p >= 10 ? 1 : p >= 0.1 ? 2 : 5);
}

/// The lengths that place `k` of the histogram counts: 0, 1, 2-3, 4-7, ...
std::pair<Offset, Offset> length_class(std::size_t k) { return {(Offset{1} << k) / 2, (Offset{1} << k) - 1}; }

void print_line(const char* name, const std::string& text) { fmt::print("  {:<16} {}\n", name, text); }

std::string symmetry(const MatrixStatistics& s) {
  if (s.rows != s.cols) return "none (not square)";
  if (s.numerical_symmetry == 1) return "symmetric";
  if (s.structural_symmetry == 1)
    return fmt::format("of structure; {} of the values are equal to their mirrors",
                       percent(s.numerical_symmetry));
  return fmt::format("none; {} of the entries off the diagonal have a mirror",
                     percent(s.structural_symmetry));
}

/// Rows by length, one bar a class, drawn with eighths of a character.
void print_histogram(const MatrixStatistics& s) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (s.row_length_histogram.empty()) return;
  const double most = std::ranges::max(s.row_length_histogram);
  const double room = std::clamp(terminal_width(stdout) - 44, 10, 60);
  fmt::print("\n  {:>17}  {:>13}\n", "non-zeros in row", "rows");
  std::size_t k = 0;
  while (k < s.row_length_histogram.size() && s.row_length_histogram[k] == 0) ++k;
  for (; k < s.row_length_histogram.size(); ++k) {
    const auto [from, to] = length_class(k);
    const Index rows = s.row_length_histogram[k];
    const auto eighths = static_cast<int>(std::ceil(rows / std::max(most, 1.0) * room * 8));
    fmt::print("  {:>17}  {:>13}{}{:█>{}}{}\n",
               from == to ? grouped(from) : grouped(from) + " - " + grouped(to), grouped(rows),
               eighths > 0 ? "  " : "", "", eighths / 8, kEighths[eighths % 8]);
  }
}

const char* square_of(const SquareCost& cost) {
  if (!cost.rectangular) return "A A";
  return cost.transposed_first ? "A^T A" : "A A^T";
}

void print_square(const SquareCost& cost) {
  const double bytes = 8.0 * (cost.rows + 1.0) + 8.0 * static_cast<double>(cost.nnz_estimate);
  fmt::print("\n  C = {}{}\n", square_of(cost),
             cost.rectangular ? "  (the cheaper of the two squares of a rectangle)" : "");
  print_line("  size", fmt::format("{} x {}", grouped(cost.rows), grouped(cost.cols)));
  print_line("  products", fmt::format("{}, at most {} in one row", grouped(cost.products),
                                       grouped(cost.max_row_products)));
  print_line("  non-zeros", fmt::format("{}{}, {} in f32", cost.nnz_exact ? "" : "about ",
                                        grouped(cost.nnz_estimate), format_bytes(bytes)));
  if (cost.rectangular) print_line("  the other", fmt::format("{} products", grouped(cost.other_products)));
  print_line("  compression", fmt::format("{:.3g} products for each non-zero of C", cost.compression()));
}

void print_text(const std::string& source, const MatrixStatistics& s, const SquareCost& cost) {
  fmt::print("{}\n", printable(source));
  print_line("size", fmt::format("{} x {}", grouped(s.rows), grouped(s.cols)));
  print_line("non-zeros", fmt::format("{}, {} of all places", grouped(s.nnz), percent(s.density)));
  print_line("in a row", fmt::format("mean {:.4g}, median {:.4g}, from {} to {}, Gini {:.2f}", s.mean_row,
                                     s.median_row, grouped(s.min_row), grouped(s.max_row), s.gini));
  print_line("in a column", fmt::format("at most {}", grouped(s.max_col)));
  print_line("empty", fmt::format("{} rows, {} columns", grouped(s.empty_rows), grouped(s.empty_cols)));
  print_line("bandwidth", fmt::format("{} below the diagonal, {} above", grouped(s.lower_bandwidth),
                                      grouped(s.upper_bandwidth)));
  print_line("diagonal", fmt::format("{} of {} places stored", grouped(s.diagonal_entries),
                                     grouped(std::min(s.rows, s.cols))));
  print_line("symmetry", symmetry(s));
  if (s.explicit_zeros > 0) print_line("stored zeros", grouped(s.explicit_zeros));
  if (s.non_finite_values > 0) print_line("NaN, infinite", grouped(s.non_finite_values));
  print_histogram(s);
  print_square(cost);
}

json to_json(const std::string& source, const MatrixStatistics& s, const SquareCost& cost) {
  json histogram = json::array();
  for (std::size_t k = 0; k < s.row_length_histogram.size(); ++k) {
    const auto [from, to] = length_class(k);
    histogram.push_back({{"from", from}, {"to", to}, {"rows", s.row_length_histogram[k]}});
  }
  return {{"schema_version", 1},
          {"matrix", source},
          {"rows", s.rows},
          {"cols", s.cols},
          {"nnz", s.nnz},
          {"density", s.density},
          {"row_length",
           {{"min", s.min_row},
            {"max", s.max_row},
            {"mean", s.mean_row},
            {"median", s.median_row},
            {"gini", s.gini}}},
          {"row_length_histogram", histogram},
          {"max_column_length", s.max_col},
          {"empty_rows", s.empty_rows},
          {"empty_cols", s.empty_cols},
          {"lower_bandwidth", s.lower_bandwidth},
          {"upper_bandwidth", s.upper_bandwidth},
          {"diagonal_entries", s.diagonal_entries},
          {"structural_symmetry", s.structural_symmetry},
          {"numerical_symmetry", s.numerical_symmetry},
          {"structurally_symmetric", s.structural_symmetry == 1},
          {"numerically_symmetric", s.numerical_symmetry == 1},
          {"explicit_zeros", s.explicit_zeros},
          {"non_finite_values", s.non_finite_values},
          {"square",
           {{"form", square_of(cost)},
            {"rows", cost.rows},
            {"cols", cost.cols},
            {"products", cost.products},
            {"max_row_products", cost.max_row_products},
            {"nnz", cost.nnz_estimate},
            {"nnz_exact", cost.nnz_exact},
            {"compression", cost.compression()}}}};
}

template <class Problem>
void print_choices(const Program& program, const Problem& problem, Exec& exec, const std::string& on) {
  for (const Entry& entry : program.registry.entries()) {
    if (entry.op != Problem::kOp) continue;
    const Offer<Problem> offer = entry.on<Problem>().look(problem, exec);
    if (!offer.choice.empty()) fmt::print("  {} on {}: {}: {}\n", entry.name, on, offer.choice, offer.why);
  }
}

/// The rows of each form, which are known when a product has run.
std::string rows_by_form(const Entry& entry, const SpgemmProblem<float>& problem, const Machine& machine) {
  RunOptions limits;
  limits.max_simulated_work = 4e6;  // a second or two
  if (problem.a->rows > 4e6) return "of too many rows to see here";
  std::string text = refusal(entry, problem, machine, limits);
  if (!text.empty()) return text;
  const auto plan = entry.on<SpgemmProblem<float>>().prepare(problem, machine.of(entry));
  plan->load(make_operands(problem, ValueKind::real, 1));
  plan->reset();
  plan->run();
  machine.of(entry).synchronize();
  for (const Metric& metric : plan->metrics())
    if (metric.name.starts_with("rows_") && metric.value > 0)
      text += fmt::format("{}{:.0f} {}", text.empty() ? "rows: " : ", ", metric.value, metric.name.substr(5));
  return text;
}

/// What entries that choose among forms do with the matrix, and why.
void print_forms(const Program& program, int n_cols, const Csr<double>& matrix, const SquareCost& square) {
  // Rules go by the size of the device: where it is simulated, by an H100's, unless it is told otherwise.
  setenv("STAGES_DEVICE_SMS", "132", 0);
  setenv("STAGES_DEVICE_L2", "50", 0);
  const Devices devices;
  constexpr Index kMost = 50'000'000;  // of empty rows arrays are made, too
  if (devices.machine().gpu == nullptr || std::max(matrix.rows, matrix.cols) > kMost) return;
  auto a = std::make_shared<const Csr<float>>(convert_values<float>(matrix));
  const std::string on = devices.machine().gpu->simulated()
                             ? fmt::format("{} SMs with {} MiB of L2", std::getenv("STAGES_DEVICE_SMS"),
                                           std::getenv("STAGES_DEVICE_L2"))
                             : devices.machine().gpu->device();
  fmt::print("\n");
  Exec& gpu = *devices.machine().gpu;
  print_choices(program, make_spmv_problem<float>("", a), gpu, on);
  print_choices(program, make_spmm_problem<float>({.name = "", .a = a, .n_cols = n_cols}), gpu, on);
  const auto binned =
      std::ranges::find(program.registry.entries(), "08_spgemm_multigpu/binned", &Entry::name);
  if (binned == program.registry.entries().end()) return;
  auto b = square.rectangular ? std::make_shared<const Csr<float>>(transpose(*a)) : a;
  if (square.transposed_first) std::swap(a, b);
  std::string rows;
  try {
    rows = rows_by_form(*binned, make_spgemm_problem<float>("", a, b), devices.machine());
  } catch (const std::exception& error) {
    rows = error.what();
  }
  fmt::print("  {} on {}: {}\n", binned->name, on, rows);
}

/// A fact of the machine as people read it: what is a number of bytes, or of bytes a second, in units.
std::string in_words(const std::string& name, const std::string& value) {
  if (name.find("bytes") == std::string::npos) return value;
  const std::string amount = format_bytes(std::stod(value));
  return name.ends_with("_per_second") ? amount + "/s" : amount;
}

/// What lessons count with: sizes of caches and memories, and the speed of large copies, which is measured.
int describe_machine(bool as_json) {
  const Devices devices;
  std::vector<std::pair<std::string, std::string>> facts;
  for (auto& [name, value] : run_context({}, devices.machine())) {
    static constexpr std::string_view kOfARun[] = {"command", "date", "ranks", "gpu_launch", "source_digest"};
    if (std::ranges::count(kOfARun, name) == 0) facts.emplace_back(name, value);
    if (name == "cpus")
      facts.emplace_back("cpu_cache_bytes", fmt::format("{:.0f}", last_level_cache_bytes()));
  }
  if (as_json) {
    const json object(std::map<std::string, std::string>(facts.begin(), facts.end()));
    fmt::print("{}\n", object.dump(2, ' ', false, json::error_handler_t::replace));
    return kGood;
  }
  fmt::print("this machine\n");
  for (const auto& [name, value] : facts) fmt::print("  {:<36} {}\n", name, in_words(name, value));
  return kGood;
}

/// What --rows A:B names, all rows where it is not given. Throws Error unless 0 <= A < B <= rows.
std::pair<Index, Index> chosen_rows(const std::string& text, Index rows) {
  if (text.empty()) return {0, rows};
  Index first = 0, last = 0;
  const char* const end = text.data() + text.size();
  const auto one = std::from_chars(text.data(), end, first);
  const bool more = one.ec == std::errc() && one.ptr != end && *one.ptr == ':';
  const auto two = std::from_chars(more ? one.ptr + 1 : end, end, last);
  if (two.ec != std::errc() || two.ptr != end)
    fail("--rows {}: give two whole numbers, as in --rows 0:100 for rows 0 to 99", printable(text));
  if (first < 0 || first >= last || last > rows)
    fail("--rows {}: the matrix has rows 0 to {}; give A:B with 0 <= A < B <= {}", text, rows - 1, rows);
  return {first, last};
}

int work(const Program& program, const InfoOptions& options) {
  if (options.picture.empty() && !options.rows.empty())
    fail("--rows {}: rows are chosen for a picture; add --picture FILE.svg", printable(options.rows));
  if (options.source.empty() && !options.picture.empty())
    fail("--picture {}: no matrix to draw is named; put it behind `info`", printable(options.picture));
  if (options.source.empty()) return describe_machine(options.json);
  if (!options.picture.empty()) {
    chosen_rows(options.rows, require_matrix(options.source).rows);
    require_writable("--picture", options.picture, {options.source});
    if (!options.picture.ends_with(".svg") && !options.picture.starts_with("/dev/"))
      fail("--picture {}: it is drawn as SVG; give a name that ends in .svg", printable(options.picture));
  }
  const Csr<double> a = load_matrix<double>(options.source, options.input);
  const MatrixStatistics s = statistics(a);
  const SquareCost cost = square_cost(a);
  if (!options.picture.empty()) {
    constexpr std::size_t kLongest = 60;
    const auto [first, last] = chosen_rows(options.rows, a.rows);
    const std::string name = valid_utf8(options.source.substr(0, kLongest));
    write_file(options.picture,
               picture(a, first, last, as_markup(name + (options.source.size() > kLongest ? "..." : ""))));
  }
  if (options.json) {
    fmt::print("{}\n", to_json(options.source, s, cost).dump(2, ' ', false, json::error_handler_t::replace));
  } else {
    print_text(options.source, s, cost);
    print_forms(program, options.n_cols, a, cost);
  }
  return kGood;
}

}  // namespace

void add_info_command(CommandLine& line, const Program& program) {
  Command command = line.add(
      "info",
      "Describe a matrix: shape, symmetry, row lengths, the cost of squaring it; without one, this machine");
  const auto options = std::make_shared<InfoOptions>();
  command.option("MATRIX", options->source, "A Matrix Market file, gen:SPEC or data:NAME",
                 {.not_empty = true});
  command.flag("--json", options->json, "Print JSON instead of text");
  command.option("--n-cols", options->n_cols, "Columns of B for which the form of SpMM is told",
                 {.type = "N", .least = 1, .most = 1 << 20, .shows_default = true});
  command.option("--picture", options->picture,
                 "Draw where the non-zeros lie, and how long the rows are, into an SVG",
                 {.type = "FILE", .not_empty = true});
  command.option("--rows", options->rows, "With --picture: only rows A to B - 1, counted from 0",
                 {.type = "A:B", .not_empty = true});
  add_input_options(command, options->input);
  command.footer([&program] {
    return examples(program, {{"info cant.mtx.gz", "a file of a public collection, as it is"},
                              {"info gen:rmat:scale=14", "a generated matrix"},
                              {"info data:web --json", "for scripts"},
                              {"info data:web --picture web.svg --rows 0:100", "its first rows as a picture"},
                              {"info", "this machine: processor, caches, GPU, speed of a large copy"}});
  });
  command.does([&program, options] { return work(program, *options); });
}

}  // namespace stages
