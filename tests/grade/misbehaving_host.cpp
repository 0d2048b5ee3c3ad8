// A student's file for the host, where no kernels are counted. It multiplies elsewhere than in run(), as the
// environment variable STAGES_MISBEHAVE says; with none it is right.
#include <chrono>
#include <thread>

#include "common/harness/plan.hpp"
#include "common/harness/registry.hpp"
#include "tests/grade/misbehaves.hpp"

namespace stages {
namespace {

template <class T>
class Misbehaving final : public HostSpmvPlan<T> {
 public:
  Misbehaving(const SpmvProblem<T>& problem, Exec& /*exec*/) : HostSpmvPlan<T>(problem), problem_(problem) {}

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
    if (misbehaves("host:hang_when_timed") && problem_.products > 60)
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

  void product(const T* x, T* y) override {
    const CsrView<T> a = this->a().view();
    for (Index i = 0; i < a.rows; ++i) {
      T sum = 0;
      for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) sum += a.values[p] * x[a.col_idx[p]];
      y[i] = sum;
    }
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
