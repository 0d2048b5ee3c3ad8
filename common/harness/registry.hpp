#pragma once
// An Entry is one way to multiply, under a name; the Registry holds all of them in the order of the course. A
// step exports one function, `void add_01_cpu_serial(Registry&)`, which registers plan classes:
//
//   registry.add<CsrSpmv>({.name = "01_cpu_serial/csr_spmv", .idea = "row by row over the non-zeros"});
//
// A plan class is a template over the value type, derived from SpmvPlan<T>, SpmmPlan<T> or SpgemmPlan<T>, with
//   Plan(const Problem&, Exec&, extra...)                             prepare
//   static Cost cost(const Problem&)                                  optional: what it costs, where that is
//                                                                     more than problem_cost()
//   static std::optional<std::string> refuse(const Problem&, Exec&)   optional: why it cannot run this problem,
//                                                                     with the number that rules it out
// Where the entry has parameters all three take a `const ParameterValues&`, too: the constructor before the
// extra arguments, the others last.

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/harness/exec.hpp"
#include "common/harness/parameters.hpp"
#include "common/harness/plan.hpp"
#include "common/harness/problem.hpp"

namespace stages {

/// What an entry promises; the checker holds it to that.
struct Claims {
  bool bitwise_reproducible = true;  ///< the same operands give the same bits, run after run
  bool drops_exact_zeros = false;    ///< SpGEMM: may leave out positions of C whose value is exactly zero
  bool structure_reuse =
      false;  ///< SpGEMM: prepare does the symbolic work, so it is never ranked with the others
};

struct EntryInfo {
  std::string name;  ///< "step/idea", e.g. "05_cuda_csr/warp_per_row"; "vendor/library_call" for peers
  std::string idea;  ///< one line
  /// The entry that it changes, which its times are compared with: of its own step, or with the step's name.
  std::string previous = {};
  Claims claims = {};
  Needs needs = {};  ///< beside what its plan always needs (Plan::kNeeds)
  std::vector<Parameter> parameters = {};
};

/// How an entry meets one kind of problem, with the values chosen for its parameters.
template <class Problem>
struct Implementation {
  std::unique_ptr<Plan<Problem>> prepare(const Problem& problem, Exec& exec) const {
    return prepare_with(problem, exec, values);
  }
  Cost cost(const Problem& problem) const { return cost_with(problem, values); }
  std::optional<std::string> refuse(const Problem& problem, Exec& exec) const {
    return refuse_with(problem, exec, values);
  }

  std::function<std::unique_ptr<Plan<Problem>>(const Problem&, Exec&, const ParameterValues&)> prepare_with;
  Cost (*cost_with)(const Problem&, const ParameterValues&) = nullptr;
  std::optional<std::string> (*refuse_with)(const Problem&, Exec&, const ParameterValues&) = nullptr;
  ParameterValues values;
};

struct Entry : EntryInfo {
  Op op = Op::spmv;
  bool chains = false;  ///< Plan::kChains

  /// "01_cpu_serial" of "01_cpu_serial/csr_spmv".
  std::string_view stage() const { return std::string_view(name).substr(0, name.find('/')); }
  /// True for what a user would pick instead: a library's call, not a step of the course.
  bool is_peer() const { return stage() == "vendor"; }
  /// Its name without the values of parameters.
  std::string_view base() const { return std::string_view(name).substr(0, name.find(':')); }
  /// This entry with such values of its parameters, named as in "07_spmm/split_rows:chunk=64".
  Entry with(const ParameterValues& values) const;

  template <class Problem>
  const Implementation<Problem>& on() const {
    return std::get<Implementation<Problem>>(implementations);
  }

  std::tuple<Implementation<SpmvProblem<float>>, Implementation<SpmvProblem<double>>,
             Implementation<SpmmProblem<float>>, Implementation<SpmmProblem<double>>,
             Implementation<SpgemmProblem<float>>, Implementation<SpgemmProblem<double>>>
      implementations;
};

namespace detail {

// What stands behind Implementation::prepare. A class, not a lambda, and Registry::add is always inlined: g++
// 12 gives a lambda, or a function with a template template argument, a name that is shared between files even
// where the plan class is in an unnamed namespace. Two steps with plan classes of one name would then both run
// the first.
template <class PlanType, class... Extra>
struct Prepare {
  using Problem = typename PlanType::Problem;
  std::tuple<Extra...> extra;

  std::unique_ptr<Plan<Problem>> operator()(const Problem& problem, Exec& exec,
                                            const ParameterValues& values) const {
    return make(problem, exec, values, std::index_sequence_for<Extra...>());
  }

  template <std::size_t... I>
  std::unique_ptr<Plan<Problem>> make(const Problem& problem, Exec& exec, const ParameterValues& values,
                                      std::index_sequence<I...>) const {
    if constexpr (std::is_constructible_v<PlanType, const Problem&, Exec&, const ParameterValues&, Extra...>)
      return std::make_unique<PlanType>(problem, exec, values, std::get<I>(extra)...);
    else
      return std::make_unique<PlanType>(problem, exec, std::get<I>(extra)...);
  }
};

template <class PlanType>
Cost cost_with(const typename PlanType::Problem& problem, const ParameterValues& values) {
  if constexpr (requires { PlanType::cost(problem, values); })
    return PlanType::cost(problem, values);
  else
    return PlanType::cost(problem);
}

template <class PlanType>
std::optional<std::string> refuse_with(const typename PlanType::Problem& problem, Exec& exec,
                                       const ParameterValues& values) {
  if constexpr (requires { PlanType::refuse(problem, exec, values); })
    return PlanType::refuse(problem, exec, values);
  else
    return PlanType::refuse(problem, exec);
}

}  // namespace detail

class Registry {
 public:
  /// Registers PlanOf<float> and PlanOf<double> under info.name. `extra` are passed on to the constructor
  /// after (problem, exec), for entries that differ by a parameter only. Throws Error if the name is taken.
  template <template <class> class PlanOf, class... Extra>
  [[gnu::always_inline]] void add(EntryInfo info, Extra... extra) {
    info.needs = info.needs | PlanOf<float>::kNeeds;
    Entry& entry = add({std::move(info), PlanOf<float>::Problem::kOp, {}});
    implement<PlanOf<float>>(entry, extra...);
    implement<PlanOf<double>>(entry, extra...);
  }
  /// Throws Error if the name is taken.
  Entry& add(Entry entry);

  std::span<const Entry> entries() const { return entries_; }
  /// The entry of that name, which may be one with values: "07_spmm/split_rows:chunk=64". Throws Error, with
  /// the nearest names, if there is none.
  const Entry& find(std::string_view name) const;
  /// That with values for each combination of those in "07_spmm/split_rows:chunk=32,64,128,columns=1,2". They
  /// stay where they are as long as the registry does. Throws Error where find() or combinations() does.
  std::vector<const Entry*> variants(std::string_view setting) const;

 private:
  template <class PlanType, class... Extra>
  static void implement(Entry& entry, Extra... extra) {
    using Problem = typename PlanType::Problem;
    auto& to = std::get<Implementation<Problem>>(entry.implementations);
    entry.chains = PlanType::kChains;
    to.prepare_with = detail::Prepare<PlanType, Extra...>{{extra...}};
    to.cost_with = &detail::cost_with<PlanType>;
    to.refuse_with = &detail::refuse_with<PlanType>;
  }

  std::vector<Entry> entries_;
  mutable std::list<Entry> variants_;  ///< those that were asked for
};

}  // namespace stages
