#pragma once
// Entries that choose another one: a rule looks at the problem, and from then on all is that entry's.

#include <algorithm>
#include <string>

#include "common/harness/registry.hpp"

namespace stages {

/// An entry of the same step, and what decided.
struct Choice {
  std::string name;  ///< without the step; notes and results tell it
  std::string why = {};
};

/// Registers an entry that is, for each problem, the one of its step that choose(problem) names. That is asked
/// once for each look, and its entry is registered before.
template <template <class> class ProblemOf, class Choose>
void add_choice(Registry& registry, EntryInfo info, Choose choose) {
  info.needs.gpu = true;
  const std::string step = info.name.substr(0, info.name.find('/') + 1);
  const std::vector<Entry> known(registry.entries().begin(), registry.entries().end());
  registry.add(
      std::move(info),
      looking<ProblemOf>([=]<class Problem>(const Problem& problem, Exec& exec, const ParameterValues&) {
        const Choice choice = choose(problem);
        const auto entry = std::ranges::find(known, step + choice.name, &Entry::name);
        Offer<Problem> offer = entry->template on<Problem>().look(problem, exec);
        offer.prepare = [choice, prepare = std::move(offer.prepare)](const Problem& shown, Exec& on) {
          auto plan = prepare(shown, on);
          plan->chosen = choice.name;
          return plan;
        };
        offer.choice = choice.name;
        offer.why = choice.why;
        return offer;
      }));
}

}  // namespace stages
