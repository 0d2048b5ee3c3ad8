#pragma once
// Rules that are data: which entry of a step multiplies a matrix, by a tree of questions for SpMV and SpMM.
// data/rules.txt has them, fitted by tools/fit-rules.sh and built in; `--rules FILE` takes another file. It is
// a table of rules for each of one or more GPUs, each begun by a line of five fields between tabs,
//
//   gpu  NAME  SMS  BYTES_OF_L2  BYTES_A_SECOND
//
// and followed by trees: a line with the operation, and then a tree, which is
//
//   take ENTRY[:PARAMETER=VALUE,..]      an entry of the step; or
//   if FEATURE < NUMBER  TREE  else  TREE
//
// a line each, however indented; # begins a comment. The GPU that is nearest to the one at hand counts, by the
// logarithms of SMs, bytes of L2 and bytes a second.

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/harness/registry.hpp"
#include "common/matrix/error.hpp"

namespace stages {

/// What rules look at: numbers by name.
using Features = std::vector<Metric>;

/// An entry of the same step, without the step and with values of its parameters, and what decided.
struct Choice {
  std::string name;
  std::string why = {};
  Features features = {};
};

/// The trees of one GPU.
struct Rules {
  /// Nodes lie in the order of the lines. If the condition holds, the next one follows, else `otherwise`.
  struct Node {
    std::string feature;  ///< empty: a leaf
    double below = 0;
    std::size_t otherwise = 0;  ///< node
    std::string take;
  };

  std::string gpu;
  double sms = 0, l2_bytes = 0, bytes_per_second = 0;
  std::vector<std::pair<Op, std::vector<Node>>> trees;

  /// Throws Error where there is no tree, or it asks for a feature that is not among these.
  Choice choose(Op op, const Features& features) const;
};

/// Throws Error, naming file and line, for what is no table of rules.
std::vector<Rules> parse_rules(std::string_view text, std::string_view file);

/// Of the table nearest to this device: of the file that the variable STAGES_RULES names, or built in.
Choice choose(Op op, const Features& features);

/// What is counted of any matrix: its mean row; `row_share`: the longest row over `nnz_an_sm`, so whether one
/// row keeps the device waiting; `padding`: over the non-zeros, the places if of each 32 rows in turn all were
/// as long as the longest; and `nnz_an_sm`. Fits choose among them; not each is in a tree that is built in.
template <class T>
Features matrix_features(const Csr<T>& a);

/// Registers an entry that is, for each problem, the one of its step that the rules name for the features that
/// look_at(problem) finds; or `fallback`, which refuses no problem, where that one refuses it.
template <template <class> class ProblemOf, class LookAt>
void add_choice(Registry& registry, EntryInfo info, std::string fallback, LookAt look_at) {
  info.needs.gpu = true;
  const std::string step = info.name.substr(0, info.name.find('/') + 1);
  const std::vector<Entry> known(registry.entries().begin(), registry.entries().end());
  registry.add(
      std::move(info),
      looking<ProblemOf>([=]<class Problem>(const Problem& problem, Exec& exec, const ParameterValues&) {
        Choice choice = choose(Problem::kOp, look_at(problem));
        const auto offer_of = [&](const std::string& name) {
          const auto entry = std::ranges::find(known, step + name.substr(0, name.find(':')), &Entry::name);
          if (entry == known.end()) fail("the rules name {}{}, and there is no such entry", step, name);
          if (name.find(':') == name.npos) return entry->template on<Problem>().look(problem, exec);
          const auto values = combinations(name.substr(name.find(':') + 1), entry->parameters, entry->name);
          return entry->with(values.front()).template on<Problem>().look(problem, exec);
        };
        Offer<Problem> offer = offer_of(choice.name);
        if (offer.refuse(problem, exec)) {
          choice.why += fmt::format(", but {} refuses it", std::exchange(choice.name, fallback));
          offer = offer_of(fallback);
        }
        offer.prepare = [=, prepare = std::move(offer.prepare)](const Problem& shown, Exec& on) {
          auto plan = prepare(shown, on);
          plan->chosen = choice.name;
          plan->looked_at = choice.features;
          return plan;
        };
        offer.choice = choice.name;
        offer.why = choice.why;
        return offer;
      }));
}

}  // namespace stages
