// A student's file for the host, where no kernels are counted. It multiplies elsewhere than in run(), as the
// environment variable STAGES_MISBEHAVE says; with none it is right.
#include <chrono>
#include <thread>

#include "tests/grade/misbehaves.hpp"
#include "tests/mutants/spmv.hpp"

namespace stages {
namespace {

template <class T>
class Misbehaving final : public mutants::FaultySpmv<T> {
 public:
  Misbehaving(const SpmvProblem<T>& problem, Exec& exec)
      : mutants::FaultySpmv<T>(problem, exec, mutants::SpmvFault::none), problem_(problem) {}

  ~Misbehaving() override {
    if (misbehaves("host:hang_when_destroyed")) std::this_thread::sleep_for(std::chrono::hours(1));
  }

  static Cost cost(const SpmvProblem<T>& problem) { return problem_cost(problem); }

  void load(const SpmvOperands<T>& operands) override {
    if (misbehaves("host:in_next_load")) finish();
    HostSpmvPlan<T>::load(operands);
    x_ = &operands;
    if (misbehaves("host:copied_in_load")) copy_ = operands;
    if (misbehaves("host:in_load")) {
      HostSpmvPlan<T>::run();
      made_ = HostSpmvPlan<T>::fetch();
    }
  }
  void run() override {
    if (misbehaves("host:in_load")) return;
    if (misbehaves("host:in_fetch") || misbehaves("host:in_next_load") || misbehaves("host:beside")) {
      copy_ = *x_;  // run() itself only copies
      is_due_ = true;
      if (misbehaves("host:beside"))
        beside_ = std::jthread([this] {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          finish();
        });
      return;
    }
    if (misbehaves("host:copied_in_load")) HostSpmvPlan<T>::load(copy_);
    HostSpmvPlan<T>::run();
    if (misbehaves("host:hang_when_timed") && problem_.n_vectors > 60)
      std::this_thread::sleep_for(std::chrono::hours(1));
  }
  Dense<T> fetch() override {
    if (misbehaves("host:in_load")) return made_;
    if (beside_.joinable()) beside_.join();
    if (misbehaves("host:in_fetch")) finish();
    return HostSpmvPlan<T>::fetch();
  }

 private:
  /// What run() has left to be done.
  void finish() {
    if (!is_due_) return;
    is_due_ = false;
    HostSpmvPlan<T>::load(copy_);
    HostSpmvPlan<T>::run();
  }

  SpmvProblem<T> problem_;
  const SpmvOperands<T>* x_ = nullptr;
  SpmvOperands<T> copy_;
  Dense<T> made_;
  bool is_due_ = false;
  std::jthread beside_;
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<Misbehaving>({.name = "task/misbehaving_host", .idea = "what STAGES_MISBEHAVE says"});
}

}  // namespace stages
