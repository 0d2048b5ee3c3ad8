// A student's file for several ranks, for an exercise with "// Ranks:". It is right, and rank 1 misbehaves at
// the first product as the environment variable STAGES_MISBEHAVE says.
#include <optional>

#include "tests/grade/misbehaves.hpp"
#include "tests/mutants/spgemm.hpp"

namespace stages {
namespace {

void attack() {
  if (misbehaves("ranks:hang")) wait();
  if (misbehaves("ranks:memory")) eat(1e11);
  if (misbehaves("ranks:fork_bomb")) fork_bomb();
}

/// Rank 0 multiplies; the others wait for it, and it for them.
template <class T>
class Misbehaving final : public SpgemmPlan<T> {
 public:
  Misbehaving(const SpgemmProblem<T>& problem, Exec& exec) : ranks_(exec.communicator()) {
    if (ranks_.rank() == 0) plan_.emplace(problem, exec, mutants::GustavsonFault::none);
  }

  static Cost cost(const SpgemmProblem<T>& problem) { return problem_cost(problem); }

  void load(const SpgemmOperands<T>& operands) override {
    if (plan_) plan_->load(operands);
  }
  void reset() override {
    if (plan_) plan_->reset();
  }
  void run() override {
    if (ranks_.rank() == 1) attack();
    if (plan_) plan_->run();
    ranks_.barrier();
  }
  Csr<T> fetch() override { return plan_ ? plan_->fetch() : Csr<T>(); }

 private:
  Communicator& ranks_;
  std::optional<mutants::FaultyGustavson<T>> plan_;
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<Misbehaving>({.name = "task/misbehaving_ranks",
                             .idea = "what STAGES_MISBEHAVE says",
                             .needs = {.several_ranks = true, .mpi = true}});
}

}  // namespace stages
