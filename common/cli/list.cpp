// stages list: what there is to run.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "common/cli/program.hpp"
#include "common/cli/terminal.hpp"
#include "common/harness/build_info.hpp"

namespace stages {
namespace {

using nlohmann::json;

/// What people must know of an entry beside its idea, as words.
std::string remarks(const Entry& entry) {
  std::string out;
  const auto add = [&](bool holds, const char* what) {
    if (holds) out += (out.empty() ? "" : ", ") + std::string(what);
  };
  add(entry.needs.gpu, "needs a GPU");
  add(entry.needs.several_ranks, "runs on several ranks");
  add(!entry.claims.bitwise_reproducible, "last bits vary from run to run");
  add(entry.claims.drops_exact_zeros, "leaves out exact zeros");
  add(entry.claims.structure_reuse, "reuses the structure of C, ranked apart");
  return out;
}

void print_text(const Program& program) {
  const bool colour = wants_colour(stdout);
  const auto bold = [&](std::string_view text) {
    return colour ? fmt::format("\033[1m{}\033[0m", text) : std::string(text);
  };
  std::size_t width = 0;
  for (const Entry& entry : program.registry.entries()) width = std::max(width, entry.name.size());
  std::string_view stage;
  for (const Entry& entry : program.registry.entries()) {
    if (entry.stage() != stage) {
      fmt::print("{}{}{}\n", stage.empty() ? "" : "\n", bold(entry.stage()),
                 entry.is_vendor() ? "  (vendor libraries: what one would pick instead)" : "");
      stage = entry.stage();
    }
    const std::string more = remarks(entry);
    fmt::print("  {:<6}  {:<{}}  {}{}\n", to_string(entry.op), entry.name, width, entry.idea,
               more.empty() ? "" : " (" + more + ")");
  }
  if (program.left_out.empty()) return;
  fmt::print("\n{}\n", bold("left out of this build"));
  for (const LeftOut& left : program.left_out) fmt::print("  {}: needs {}\n", left.name, left.needs);
}

void print_parameters(const Program& program) {
  for (const Entry& entry : program.registry.entries()) {
    if (!entry.parameters.empty()) fmt::print("{}\n", entry.name);
    for (const Parameter& p : entry.parameters)
      fmt::print("  {:<8}  {}\n            from {} to {}; by default: {}\n", p.name, p.meaning, p.least,
                 p.most, p.rule);
  }
}

json to_json(const Program& program) {
  json entries = json::array();
  for (const Entry& e : program.registry.entries()) {
    json parameters = json::array();
    for (const Parameter& p : e.parameters)
      parameters.push_back({{"name", p.name},
                            {"meaning", p.meaning},
                            {"default", p.rule},
                            {"least", p.least},
                            {"most", p.most}});
    entries.push_back({{"name", e.name},
                       {"stage", e.stage()},
                       {"operation", to_string(e.op)},
                       {"idea", e.idea},
                       {"peer", e.is_vendor()},
                       {"needs", {{"gpu", e.needs.gpu}, {"several_ranks", e.needs.several_ranks}}},
                       {"claims",
                        {{"bitwise_reproducible", e.claims.bitwise_reproducible},
                         {"drops_exact_zeros", e.claims.drops_exact_zeros},
                         {"structure_reuse", e.claims.structure_reuse}}},
                       {"parameters", parameters}});
  }
  json left_out = json::array();
  for (const LeftOut& left : program.left_out)
    left_out.push_back({{"name", left.name}, {"needs", left.needs}});
  return {{"schema_version", 1},
          {"backend", build_info().backend},
          {"version", build_info().version},
          {"entries", entries},
          {"left_out", left_out}};
}

}  // namespace

void add_list_command(CommandLine& line, const Program& program) {
  Command command = line.add("list", "Show every entry: the steps of the course, and vendor libraries");
  const auto as_json = std::make_shared<bool>(false);
  const auto parameters = std::make_shared<bool>(false);
  command.flag("--json", *as_json, "Print JSON instead of text");
  command.flag("--parameters", *parameters,
               "Show the entries that have parameters, and what `run --set` may choose");
  command.footer([&program] {
    return examples(program, {{"list", "the entries by step, with their ideas"},
                              {"list --parameters", "what can be set of them"},
                              {"list --json", "for scripts"}});
  });
  command.does([&program, as_json, parameters] {
    if (*as_json) {
      fmt::print("{}\n", to_json(program).dump(2));
    } else if (*parameters) {
      print_parameters(program);
    } else {
      print_text(program);
    }
    return kGood;
  });
}

}  // namespace stages
