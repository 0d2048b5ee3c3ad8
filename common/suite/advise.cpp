// stages advise: which entry for this matrix, by the records, and what it costs where that is wrong.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "common/cli/inputs.hpp"
#include "common/harness/problem.hpp"
#include "common/harness/results.hpp"
#include "common/matrix/embedded_table.hpp"
#include "common/suite/commands.hpp"

namespace stages {

extern const std::string_view advice_text;  // data/advice.tsv, embedded by CMake

namespace {

using nlohmann::json;

struct AdviseOptions {
  std::string source;
  std::vector<std::string> ops = names_in(kOps);
  int n_cols = 32;
  InputOptions input;
  bool json = false;
};

/// A recorded case. Shares are of the speed of the best entry.
struct Case {
  std::string_view op, options, matrix;
  double rows = 0, nnz = 0;
  std::string_view entry;
  double share = 0;
  double share_left_out = 0;  ///< of what would be advised without this case
  std::string_view best;
};

double number(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data(), end, value).ptr != end || !(value > 0))
    fail("data/advice.tsv: '{}' is no number above 0; tools/advice.py writes this file", text);
  return value;
}

std::vector<Case> cases_of(std::string_view op) {
  std::vector<Case> cases;
  for (const auto& [of, options, matrix, rows, nnz, entry, share, left_out, best] :
       table_rows<9>(advice_text, "data/advice.tsv")) {
    if (of == op)
      cases.push_back(
          {of, options, matrix, number(rows), number(nnz), entry, number(share), number(left_out), best});
  }
  return cases;
}

double geometric_mean(const std::vector<Case>& cases, double Case::*share) {
  double sum = 0;
  for (const Case& c : cases) sum += std::log(c.*share);
  return std::exp(sum / static_cast<double>(cases.size()));
}

/// How far a case is from this matrix: in doublings of the rows, of their mean length, and of B's columns.
double distance(const Case& c, const Csr<double>& a, int n_cols) {
  const auto doublings = [](double x, double y) {
    return std::abs(std::log2(std::max(x, 1e-3) / std::max(y, 1e-3)));
  };
  double sum = doublings(c.rows, a.rows) +
               doublings(c.nnz / c.rows, static_cast<double>(a.nnz()) / std::max(a.rows, 1));
  double columns = 0;
  constexpr std::string_view kColumns = "N = ";
  if (c.options.starts_with(kColumns)) {
    columns = number(c.options.substr(kColumns.size()));
    sum += doublings(columns, n_cols);
  }
  return sum;
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

std::string in_words(const Case& c) {
  return fmt::format("{}{}{}", c.matrix, c.options == "-" ? "" : ", ", c.options == "-" ? "" : c.options);
}

json advice(std::string_view op, const Csr<double>& a, const AdviseOptions& options) {
  const std::vector<Case> cases = cases_of(op);
  const auto worst = std::ranges::min_element(cases, {}, &Case::share);
  const auto nearest =
      std::ranges::min_element(cases, {}, [&](const Case& c) { return distance(c, a, options.n_cols); });
  const auto of = [](const Case& c) {
    return json{{"case", in_words(c)}, {"share", c.share}, {"best", c.best}};
  };
  return {{"operation", op},
          {"entry", cases.front().entry},
          {"cases", cases.size()},
          {"share", geometric_mean(cases, &Case::share)},
          {"share_left_out", geometric_mean(cases, &Case::share_left_out)},
          {"worst", of(*worst)},
          {"nearest", of(*nearest)}};
}

void print_text(const json& one, int n_cols) {
  const std::string op = one["operation"];
  const auto line = [](const char* what, const json& c) {
    fmt::print("  {:<8} {}: {}{}\n", what, c["case"].get<std::string>(), percent(c["share"]),
               c["share"].get<double>() < 1 ? ", the best is " + c["best"].get<std::string>() : "");
  };
  fmt::print("\n{}{}: {}\n", op, op == "spmm" ? fmt::format(" with N = {}", n_cols) : "",
             one["entry"].get<std::string>());
  fmt::print("  {:<8} {} of the best entry's speed over {} recorded cases; {} on cases left out\n", "mean",
             percent(one["share"]), one["cases"].get<std::size_t>(), percent(one["share_left_out"]));
  line("nearest", one["nearest"]);
  line("worst", one["worst"]);
}

int work(const AdviseOptions& options) {
  if (options.source.empty()) fail("no matrix given; name one with -m, as in -m web.mtx.gz or -m data:web");
  const Csr<double> a = load_matrix<double>(options.source, options.input, NonFinite::allowed);
  json all = json::array();
  for (const std::string& op : options.ops) all.push_back(advice(op, a, options));
  constexpr const char* kGpu = "NVIDIA H100";
  if (options.json) {
    const json out = {{"schema_version", 1}, {"matrix", options.source}, {"rows", a.rows},
                      {"cols", a.cols},      {"nnz", a.nnz()},           {"gpu", kGpu},
                      {"type", "f32"},       {"n_cols", options.n_cols}, {"advice", all}};
    fmt::print("{}\n", out.dump(2, ' ', false, json::error_handler_t::replace));
    return kGood;
  }
  fmt::print(
      "{}: {} x {}, {} non-zeros\nby records of one {} in f32; another GPU may have another best entry\n",
      printable(options.source), grouped(a.rows), grouped(a.cols), grouped(a.nnz()), kGpu);
  for (const json& one : all) print_text(one, options.n_cols);
  return kGood;
}

}  // namespace

void add_advise_command(CommandLine& line, const Program& program) {
  Command command = line.add(
      "advise", "Which entry for a matrix, by the records of one GPU, and what it costs to be wrong");
  const auto options = std::make_shared<AdviseOptions>();
  command.option("-m,--matrix", options->source, "A Matrix Market file, gen:SPEC or data:NAME")
      .type_name("MATRIX");
  command.option("--op", options->ops, "Operations: spmv, spmm, spgemm (several with commas); default all")
      .with_commas()
      .one_of(names_in(kOps))
      .type_name("OP,..");
  command.option("--n-cols", options->n_cols, "SpMM: columns of B")
      .between(1, 1 << 20)
      .type_name("N")
      .shows_default();
  command.flag("--json", options->json, "Print JSON instead of text");
  add_input_options(command, options->input);
  command.footer([&program] {
    return examples(program, {{"advise -m cant.mtx.gz", "for each operation"},
                              {"advise -m data:web --op spmm --n-cols 128", "for one"},
                              {"advise -m gen:rmat:scale=12 --json", "for scripts"}});
  });
  command.does([options] { return work(*options); });
}

}  // namespace stages
