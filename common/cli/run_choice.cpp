#include "common/cli/run_choice.hpp"

#include <fmt/ranges.h>
#include <regex.h>

#include <algorithm>
#include <array>

#include "common/matrix/builtin.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/nearest.hpp"
#include "common/matrix/text_lines.hpp"

namespace stages {
namespace {

constexpr std::string_view kBuiltin = "data:";
constexpr std::string_view kWholeSet = "data:all";

std::vector<Op> operations(const RunArguments& arguments) {
  if (arguments.ops.empty() && !arguments.problem.b.empty()) return {Op::spgemm};
  std::vector<Op> out;
  for (const auto& [op, name] : kOps)
    if (among(arguments.ops, name)) out.push_back(op);
  return out;
}

/// Throws Error for expressions on which regcomp and regexec of the C library take all time, memory or stack:
/// they write repeats out (so that repeats of repeats multiply), recurse into groups, and try all ways to
/// match what refers back. Names of entries ask for none of this.
void require_modest(std::string_view text) {
  constexpr std::size_t kLongest = 5000, kMostGroups = 100, kMostRepeats = 3;
  constexpr std::string_view kRepeat = "*+?";
  std::size_t groups = 0, repeats = 0;
  for (std::size_t k = 0; k < text.size(); ++k) {
    const char c = text[k], before = k > 0 ? text[k - 1] : '\0';
    if (c == '{' || (before == '\\' && c >= '1' && c <= '9'))
      fail("--filter {}: repeats in braces and \\1 are not taken; write them out", quoted(text));
    if (c == '(') ++groups;
    if (kRepeat.find(c) != kRepeat.npos && (before == ')' || kRepeat.find(before) != kRepeat.npos)) ++repeats;
  }
  if (text.size() > kLongest || groups > kMostGroups || repeats > kMostRepeats)
    fail("--filter {}: it is too large, or repeats too many groups; write a shorter one", quoted(text));
}

}  // namespace

bool among(const std::vector<std::string>& chosen, std::string_view name) {
  return chosen.empty() || std::find(chosen.begin(), chosen.end(), name) != chosen.end();
}

bool is_named(std::string_view step, std::string_view name) {
  return step == name || step.substr(0, step.find('_')) == name;
}

std::vector<std::string> chosen_stages(const Program& program, const std::vector<std::string>& wanted) {
  std::vector<std::string_view> known;
  for (const Entry& entry : program.registry.entries())
    if (known.empty() || known.back() != entry.stage()) known.push_back(entry.stage());
  std::vector<std::string> out;
  for (const std::string& name : wanted) {
    const auto found = std::ranges::find_if(known, [&](auto step) { return is_named(step, name); });
    if (found == known.end()) {
      for (const LeftOut& left : program.left_out)
        if (is_named(left.name, name))
          fail("--stage {}: left out of this build: it needs {}", name, left.needs);
      fail("--stage: there is no step '{}'; {}", name, nearest_names(name, known));
    }
    out.emplace_back(*found);
  }
  return out;
}

std::vector<const Entry*> of_operation(std::vector<const Entry*> entries, Op op, std::optional<bool> mpi) {
  std::erase_if(entries, [&](const Entry* e) { return e->op != op || (mpi && e->needs.mpi != *mpi); });
  return entries;
}

void require_effect(const RunArguments& arguments) {
  const ProblemOptions plain;
  const ProblemOptions& given = arguments.problem;
  struct OfOne {
    std::string flag;
    std::vector<Op> of;
    bool is_given;
  };
  const std::vector<Op> ops = operations(arguments);
  std::vector<Op> of_mode = {Op::spmv};
  if (given.mode == "chain") of_mode.push_back(Op::spgemm);
  for (const auto& [flag, of, is_given] :
       {OfOne{"-b", {Op::spgemm}, given.b != plain.b},
        {"--destination", {Op::spgemm}, given.destinations != plain.destinations},
        {"--n-cols", {Op::spmm}, given.n_cols != plain.n_cols},
        {"--alpha", {Op::spmm}, given.alpha != plain.alpha},
        {"--beta", {Op::spmm}, given.beta != plain.beta},
        {"--layout", {Op::spmm}, given.layout != plain.layout},
        {"--mode " + given.mode, of_mode, given.mode != plain.mode},
        {"--products", of_mode, given.products != plain.products}}) {
    if (is_given && std::ranges::find_first_of(ops, of) == ops.end())
      fail("{} is for {}, and this run has {} only", flag, to_string(of.front()),
           arguments.ops.empty() ? "spgemm (-b)" : fmt::format("{}", fmt::join(arguments.ops, ", ")));
  }
  if (given.mode == "chain" && std::ranges::count(ops, Op::spgemm) > 0 && arguments.effort.least_clock_mhz)
    fail("--require-clock is not for chains of spgemm: leave it out, or give --op");
}

void keep_matching(std::vector<const Entry*>& entries, const std::string& filter) {
  if (filter.empty()) return;
  require_modest(filter);
  regex_t compiled;
  if (const int problem = regcomp(&compiled, filter.c_str(), REG_EXTENDED | REG_NOSUB); problem != 0) {
    std::array<char, 200> why{};
    regerror(problem, &compiled, why.data(), why.size());
    fail("--filter {}: no regular expression: {}", quoted(filter), why.data());
  }
  std::erase_if(entries,
                [&](const Entry* e) { return regexec(&compiled, e->name.c_str(), 0, nullptr, 0) != 0; });
  regfree(&compiled);
}

std::vector<const Entry*> chosen_entries(const Program& program, const RunArguments& arguments) {
  const std::vector<std::string> stages = chosen_stages(program, arguments.stages);
  std::vector<const Entry*> without_values;
  for (const Entry& entry : program.registry.entries())
    if (among(arguments.ops, to_string(entry.op)) && among(stages, entry.stage()))
      without_values.push_back(&entry);
  keep_matching(without_values, arguments.filter);
  std::vector<const Entry*> out;
  for (const Entry* const entry : without_values) {
    out.push_back(entry);
    for (const std::string& setting : arguments.set) {
      if (!setting.starts_with(entry->name + ":")) continue;
      for (const Entry* const variant : program.registry.variants(setting))
        if (std::ranges::count(out, variant) == 0) out.push_back(variant);
    }
  }
  for (const std::string& setting : arguments.set) {
    const Entry& entry = *program.registry.variants(setting).front();
    if (std::ranges::count(out, &entry) == 0)
      fail("--set {}: --op, --stage and --filter leave out {}", setting, entry.base());
  }
  if (out.empty())
    fail("no entry is left by --op, --stage and --filter; `{} list` shows the {} that there are",
         program.name, program.registry.entries().size());
  return out;
}

std::vector<Job> jobs_of(const RunArguments& arguments) {
  const std::vector<Op> wanted = operations(arguments);
  const std::string& given_b = arguments.problem.b;
  std::vector<Job> jobs;
  const auto add_builtin = [&](const BuiltinMatrix& m, bool from_set) {
    std::vector<Op> ops = wanted;
    if (from_set || arguments.ops.empty())
      std::erase_if(ops, [&](Op op) { return !m.meant_for(to_string(op)); });
    jobs.push_back({.name = fmt::format("{}{}", kBuiltin, m.name),
                    .b = given_b.empty() ? std::string(m.b_spec) : given_b,
                    .ops = ops,
                    .from_set = from_set});
  };
  for (const std::string& name : arguments.matrices) {
    if (name == kWholeSet)
      for (const BuiltinMatrix& m : builtin_set()) add_builtin(m, true);
    else if (name.starts_with(kBuiltin))
      add_builtin(builtin(std::string_view(name).substr(kBuiltin.size())), false);
    else
      jobs.push_back({name, given_b, wanted});
  }
  for (const Job& job : jobs) {
    const Shape a = require_matrix(job.name);
    const Shape b = job.b.empty() ? a : require_matrix(job.b);
    const auto does = [&](Op op) { return std::ranges::count(job.ops, op) > 0; };
    if (does(Op::spgemm) && !job.b.empty()) require_product(job.name, a.rows, a.cols, b.rows, b.cols);
    if (arguments.problem.mode != "chain" || job.from_set) continue;
    if (does(Op::spmv)) require_chain(job.name, a.rows, a.cols);
    if (does(Op::spgemm)) require_chain(job.b.empty() ? job.name : job.b, b.rows, b.cols, "B");
  }
  return jobs;
}

}  // namespace stages
