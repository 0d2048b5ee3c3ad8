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
// extra arguments, the others last. An entry that is no class is a function that looks at a problem and makes
// an offer; common/gpu/rules.hpp has those that choose among other entries.

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
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
  std::string
      name;  ///< "step/idea", e.g. "05_cuda_csr/warp_per_row"; "vendor/library_call" for vendor libraries
  std::string idea;  ///< one line
  /// The entry that it changes, which its times are compared with: of its own step, or with the step's name.
  std::string previous = {};
  Claims claims = {};
  Needs needs = {};  ///< beside what its plan always needs (Plan::kNeeds)
  std::vector<Parameter> parameters = {};
};

/// What an entry makes of a problem that it has looked at. Ranks other than 0, which have no matrices, may only
/// prepare.
template <class Problem>
struct Offer {
  std::function<std::unique_ptr<Plan<Problem>>(const Problem&, Exec&)> prepare;  ///< also with other values
  std::function<Cost(const Problem&)> cost = [](const Problem& problem) { return problem_cost(problem); };
  std::function<std::optional<std::string>(const Problem&, Exec&)> refuse = [](auto&...) {
    return std::nullopt;
  };
  std::string choice = {}, why = {};  ///< the entry chosen by a rule, if there is one, and what decided
};

/// How an entry looks at problems of one kind. `values`: those of its parameters.
template <class Problem>
using Look = std::function<Offer<Problem>(const Problem&, Exec&, const ParameterValues& values)>;

/// How an entry meets one kind of problem, with the values chosen for its parameters.
template <class Problem>
struct Implementation {
  Offer<Problem> look(const Problem& problem, Exec& exec) const { return look_with(problem, exec, values); }
  std::unique_ptr<Plan<Problem>> prepare(const Problem& problem, Exec& exec) const {
    return look(problem, exec).prepare(problem, exec);
  }

  Look<Problem> look_with;
  ParameterValues values;
};

/// Makes plans of one operation, for floats and for doubles.
struct Factory {
  Op op = Op::spmv;
  Needs plan_needs = {};
  bool chains = false;  ///< Plan::kChains
  std::tuple<Implementation<SpmvProblem<float>>, Implementation<SpmvProblem<double>>,
             Implementation<SpmmProblem<float>>, Implementation<SpmmProblem<double>>,
             Implementation<SpgemmProblem<float>>, Implementation<SpgemmProblem<double>>>
      implementations = {};

  template <class Problem>
  const Implementation<Problem>& on() const {
    return std::get<Implementation<Problem>>(implementations);
  }
  template <class Problem>
  void look_by(Look<Problem> look) {
    std::get<Implementation<Problem>>(implementations).look_with = std::move(look);
  }
};

/// How a plan class looks at a problem: it does not before it is asked.
template <class PlanType, class... Extra>
Look<typename PlanType::Problem> look_of(Extra... extra) {
  using Problem = typename PlanType::Problem;
  return [=](const Problem&, Exec&, const ParameterValues& values) -> Offer<Problem> {
    return {.prepare = [=](const Problem& problem, Exec& exec) -> std::unique_ptr<Plan<Problem>> {
              if constexpr (std::is_constructible_v<PlanType, const Problem&, Exec&, const ParameterValues&,
                                                    Extra...>)
                return std::make_unique<PlanType>(problem, exec, values, extra...);
              else
                return std::make_unique<PlanType>(problem, exec, extra...);
            },
            .cost =
                [=](const Problem& problem) {
                  if constexpr (requires { PlanType::cost(problem, values); })
                    return PlanType::cost(problem, values);
                  else
                    return PlanType::cost(problem);
                },
            .refuse = [=](const Problem& problem, Exec& exec) -> std::optional<std::string> {
              if constexpr (requires { PlanType::refuse(problem, exec, values); })
                return PlanType::refuse(problem, exec, values);
              else
                return PlanType::refuse(problem, exec);
            }};
  };
}

/// That of a plan class for either type, with `extra` behind its constructor's (problem, exec).
template <class OfFloat, class OfDouble, class... Extra>
Factory plans(Extra... extra) {
  Factory factory{OfFloat::Problem::kOp, OfFloat::kNeeds, OfFloat::kChains};
  factory.look_by<typename OfFloat::Problem>(look_of<OfFloat>(extra...));
  factory.look_by<typename OfDouble::Problem>(look_of<OfDouble>(extra...));
  return factory;
}

/// That of a function, look(problem, exec, values), which makes an Offer. `ProblemOf`: SpmvProblem, ...
template <template <class> class ProblemOf, class LookAt>
Factory looking(LookAt look) {
  Factory factory{ProblemOf<float>::kOp};
  factory.look_by<ProblemOf<float>>(look);
  factory.look_by<ProblemOf<double>>(look);
  return factory;
}

/// A frame whose multiply() calls an object of type Launch. `Multiply`: the type of multiply().
template <class Frame, class Launch, class Multiply = typename Frame::Multiply>
class LaunchedPlan;
template <class Frame, class Launch, class... Args>
class LaunchedPlan<Frame, Launch, void(Args...)> final : public Frame {
 public:
  using Frame::Frame;

 private:
  void multiply(Args... args) override {
    using Host = decltype(*std::declval<typename Frame::Problem>().a);
    if constexpr (std::is_invocable_v<Launch, Args..., Host>) {
      Launch{}(args..., this->a());
    } else {
      Launch{}(args...);
    }
  }
};

struct Entry : EntryInfo, Factory {
  Entry(EntryInfo info, Factory factory) : EntryInfo(std::move(info)), Factory(std::move(factory)) {
    needs = needs | plan_needs;
  }

  /// "01_cpu_serial" of "01_cpu_serial/csr_spmv".
  std::string_view stage() const { return std::string_view(name).substr(0, name.find('/')); }
  /// True for what a user would pick instead: a vendor library's call, not a step of the course.
  bool is_vendor() const { return stage() == "vendor"; }
  /// Its name without the values of parameters.
  std::string_view base() const { return std::string_view(name).substr(0, name.find(':')); }
  /// This entry with such values of its parameters, named as in "07_spmm/split_rows:chunk=64".
  Entry with(const ParameterValues& values) const;
};

class Registry {
 public:
  /// Throws Error if the name is taken.
  Entry& add(EntryInfo info, Factory factory);
  Entry& add(Entry entry);
  /// Adds the plans of a class template. (Inlined, as g++ 12 gives a function of a class template that is in an
  /// unnamed namespace a name that other files have, too.)
  template <template <class> class PlanOf, class... Extra>
  [[gnu::always_inline]] Entry& add(EntryInfo info, Extra... extra) {
    return add(std::move(info), plans<PlanOf<float>, PlanOf<double>>(extra...));
  }
  /// Adds an entry without a class of its own: a frame, which has the operands where they are multiplied, and
  /// what launches the kernels. That is a lambda with the arguments of the frame's multiply(), and behind them,
  /// in some micro-exercises, A in the host's memory.
  template <template <class> class Frame, class Launch>
  requires requires { typename Frame<float>::Multiply; }
  Entry& add(EntryInfo info, Launch /*multiply*/) {
    return add(std::move(info),
               plans<LaunchedPlan<Frame<float>, Launch>, LaunchedPlan<Frame<double>, Launch>>());
  }

  std::span<const Entry> entries() const { return entries_; }
  /// The entry of that name, which may be one with values: "07_spmm/split_rows:chunk=64". Throws Error, with
  /// the nearest names, if there is none.
  const Entry& find(std::string_view name) const;
  /// That with values for each combination of those in "07_spmm/split_rows:chunk=32,64,128,columns=1,2". They
  /// stay where they are as long as the registry does. Throws Error where find() or combinations() does.
  std::vector<const Entry*> variants(std::string_view setting) const;

 private:
  std::vector<Entry> entries_;
  mutable std::list<Entry> variants_;  ///< those that were asked for
};

}  // namespace stages
