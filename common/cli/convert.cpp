// stages convert: makes a Matrix Market file of a graph's edge list.
#include <fmt/format.h>

#include <array>
#include <memory>

#include "common/cli/inputs.hpp"
#include "common/cli/program.hpp"
#include "common/harness/names.hpp"
#include "common/harness/results.hpp"
#include "common/matrix/edge_list.hpp"
#include "common/matrix/error.hpp"

namespace stages {
namespace {

struct ConvertOptions {
  std::string source, output, weights, separator;
  EdgeListOptions read;
};

constexpr std::array<Named<char>, 4> kSeparators = {
    {{' ', "blank"}, {'\t', "tab"}, {',', "comma"}, {';', "semicolon"}}};

/// What was found or said, so that a wrong guess is seen.
std::string found(const EdgeListReport& report, const EdgeListOptions& options) {
  std::string text = fmt::format(
      "a {} between fields, nodes from {}, {}, {}", name_of(kSeparators, report.separator), report.base,
      options.undirected ? "undirected" : "directed", report.weights ? "weights" : "no weights");
  if (!report.header.empty()) text += fmt::format("; header {} left out", report.header);
  if (report.more_columns) text += "; further columns left out";
  if (report.repeated > 0)
    text += fmt::format("; {} repeated edge{} kept {}", report.repeated, report.repeated == 1 ? "" : "s",
                        report.weights ? "with the last weight" : "once");
  return text;
}

int work(ConvertOptions options) {
  if (!options.weights.empty()) options.read.weights = options.weights == "yes";
  options.read.separator = value_named(kSeparators, options.separator);
  if (options.read.compact && options.read.nodes)
    fail("--compact and --nodes: one leaves out nodes without edges, the other adds some; give one");
  require_writable("--output", options.output, {options.source});
  EdgeListReport report;
  const Csr<double> a = read_edge_list(*open_unpacked(options.source), options.source, options.read, &report);
  write_matrix_market(options.output, a, !report.weights);
  print_about(options.output,
              fmt::format("{}: {}\n{}: {} x {}, {} non-zeros", printable(options.source),
                          found(report, options.read), printable(options.output), a.rows, a.cols, a.nnz()));
  return kGood;
}

}  // namespace

void add_convert_command(CommandLine& line, const Program& program) {
  Command command = line.add("convert", "Make a Matrix Market file of a graph's edge list");
  const auto options = std::make_shared<ConvertOptions>();
  EdgeListOptions& read = options->read;
  command.option("EDGES", options->source,
                 "Lines of two node numbers and perhaps a weight; plain or gzip-compressed",
                 {.required = true, .not_empty = true});
  command.option("-o,--output", options->output, "File to write; compressed if its name ends in .gz",
                 {.type = "FILE", .required = true});
  command.flag("--undirected", read.undirected, "Enter each edge in both directions");
  command.flag("--compact", read.compact, "Leave out nodes without edges; the others keep their order");
  command.option("--nodes", read.nodes, "How many nodes there are, where the last ones have no edges",
                 {.type = "N", .least = 1, .most = 2147483647});
  command.heading("What the file itself tells, unless it is said");
  command.option("--base", read.base, "Number of the first node: 0 if there is a node 0",
                 {.type = "0|1", .least = 0, .most = 1});
  command.option("--weights", options->weights, "Whether the third column is a weight: if it is a number",
                 {.one_of = {"yes", "no"}});
  command.option("--separator", options->separator,
                 "What is between fields; blank and tab stand for any number of both",
                 {.one_of = names_in(kSeparators)});
  command.option("--comments", read.comments, "Characters with which lines begin that hold no edge",
                 {.type = "CHARACTERS", .shows_default = true});
  command.footer([&program] {
    return examples(program,
                    {{"convert com-youtube.ungraph.txt.gz --undirected -o youtube.mtx.gz", "a graph of SNAP"},
                     {"convert edge.csv.gz --nodes 169343 -o arxiv.mtx.gz", "a graph of OGB"}});
  });
  command.does([options] { return work(*options); });
}

}  // namespace stages
