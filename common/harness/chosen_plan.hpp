#pragma once
// The plan of an entry that chooses another one in prepare: a rule looks at the problem, and from then on all
// is done by the plan of the entry chosen, which the note names.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/harness/plan.hpp"
#include "common/harness/registry.hpp"

namespace stages {

/// An entry to choose, by the function that registers it.
struct Choice {
  std::string name;  ///< as the note tells it
  void (*add)(Registry&) = nullptr;
  std::string why = {};  ///< what decided

  template <class Problem>
  Implementation<Problem> implementation() const {
    Registry registry;
    add(registry);
    return registry.entries().front().template on<Problem>();
  }
};

/// The choices of entries, by name, for who asks without a plan: `stages info`.
template <class Problem>
std::map<std::string, std::function<Choice(const Problem&)>>& choosers() {
  static std::map<std::string, std::function<Choice(const Problem&)>> all;
  return all;
}

template <class ProblemType>
class ChosenPlan : public Plan<ProblemType> {
 public:
  ChosenPlan(Choice choice, const ProblemType& problem, Exec& exec)
      : choice_(std::move(choice)), plan_(choice_.implementation<ProblemType>().prepare(problem, exec)) {}

  void load(const typename ProblemType::Operands& operands) final { plan_->load(operands); }
  void reset() final { plan_->reset(); }
  void run() final { plan_->run(); }
  typename ProblemType::Result fetch() final { return plan_->fetch(); }
  std::string note() const final { return choice_.name; }
  std::vector<Metric> metrics() const final { return plan_->metrics(); }

 private:
  Choice choice_;
  std::unique_ptr<Plan<ProblemType>> plan_;
};

}  // namespace stages
