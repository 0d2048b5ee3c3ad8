// stages generate: writes the matrix that a spec describes.
#include "common/matrix/generate.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "common/cli/inputs.hpp"
#include "common/cli/program.hpp"
#include "common/harness/results.hpp"
#include "common/matrix/builtin.hpp"
#include "common/matrix/error.hpp"

namespace stages {
namespace {

struct GenerateOptions {
  std::string spec, output, type = "f64";
  bool list = false;
};

/// One line a generator, for --help.
std::string generator_lines() {
  std::string out = "\nGenerators (generate --list shows their parameters):\n";
  std::size_t width = 0;
  for (const GeneratorInfo& g : generators()) width = std::max(width, g.name.size());
  for (const GeneratorInfo& g : generators())
    out += fmt::format("  gen:{:<{}}  {}\n", g.name, width, g.stands_for);
  return out;
}

void print_generators() {
  for (const GeneratorInfo& g : generators()) {
    fmt::print("gen:{}\n    {}\n", g.name, g.stands_for);
    for (const GeneratorParameter& p : g.parameters) {
      const std::string key =
          p.default_value.empty() ? std::string(p.name) : fmt::format("{}={}", p.name, p.default_value);
      fmt::print("    {:<20} {}\n", key, p.meaning);
    }
    fmt::print("    example: {}\n\n", g.example);
  }
  std::size_t width = 0;
  for (const BuiltinMatrix& m : builtin_set()) width = std::max(width, m.name.size());
  fmt::print("The built-in set:\n");
  for (const BuiltinMatrix& m : builtin_set()) fmt::print("  data:{:<{}}  {}\n", m.name, width, m.stands_for);
}

int work(const GenerateOptions& options) {
  if (options.list) {
    print_generators();
    return kGood;
  }
  if (options.spec.empty())
    fail("SPEC: give a spec such as gen:rmat:scale=12, or --list to see the generators");
  if (options.output.empty()) fail("--output: give the file to write, such as -o a.mtx");
  if (!is_matrix_spec(options.spec))
    fail("SPEC: '{}' is no spec; it starts with gen: or data:", options.spec);
  require_matrix(options.spec);
  require_writable("--output", options.output);
  with_type(options.type, [&]<class T>() {
    const Csr<T> a = generate<T>(options.spec);
    write_matrix_market(options.output, a);
    print_about(options.output,
                fmt::format("{}: {} x {}, {} non-zeros", options.output, a.rows, a.cols, a.nnz()));
  });
  return kGood;
}

}  // namespace

void add_generate_command(CommandLine& line, const Program& program) {
  Command command = line.add("generate", "Write a generated matrix as a Matrix Market file");
  const auto options = std::make_shared<GenerateOptions>();
  command.option("SPEC", options->spec, "gen:NAME:KEY=VALUE,... or data:NAME");
  command.option("-o,--output", options->output, "File to write; compressed if its name ends in .gz",
                 {.type = "FILE"});
  add_type_option(command, options->type, "Type whose digits are written: f32 writes fewer");
  command.flag("--list", options->list, "Show all generators with their parameters, and the built-in set");
  command.footer([&program] {
    return examples(program, {{"generate gen:rmat:scale=14,edge_factor=8 -o social.mtx.gz",
                               "a social network, compressed"},
                              {"generate data:fem -o fem.mtx", "a matrix of the built-in set"},
                              {"generate --list", "all generators with their parameters"}}) +
           generator_lines();
  });
  command.does([options] { return work(*options); });
}

}  // namespace stages
