#pragma once
// What rungs 3 to 5 share beside one_launch.hpp: how many lanes a row gets, and the width that the kernel is
// compiled for: how many non-zeros a lane keeps (share.hpp). Each gives its kernel, and run(), which launches
// it.

#include "06_cuda_register/one_launch.hpp"
#include "06_cuda_register/share.hpp"
#include "06_cuda_register/stage.hpp"

namespace stages {

inline constexpr int kLanesBlock = 256;  ///< threads

/// `Plan`: the derived class, with kernel_of<kWidth>(), its kernel of that width. `Element`: as in
/// OneLaunchPlan.
template <class T, class Plan, class Element = T>
class LanesPlan : public OneLaunchPlan<T, 1, Element> {
  using Base = OneLaunchPlan<T, 1, Element>;

 public:
  LanesPlan(const SpmvProblem<T>& problem, Exec& exec)
      : Base(problem, exec),
        lanes_(lanes_for(*problem.a, kMostSteps)),
        steps_(steps_for(resident_steps(*problem.a, lanes_), StepOrder::as_they_come)) {
    allow_shared_bytes(kernel(), this->shared_bytes(*problem.a));
  }

  std::vector<Metric> metrics() const override {
    const KernelFacts facts = kernel_facts(kernel());
    return {{"lanes_per_row", static_cast<double>(lanes_), ""},
            {"non_zeros_per_lane", static_cast<double>(steps_), ""},
            {"copies_that_fit", static_cast<double>(copies()), ""},
            registers_metric(facts),
            local_metric(facts)};
  }

  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec& exec) {
    if (auto reason = Base::refuse(problem, exec)) return reason;
    return refuse_long_rows(*problem.a);
  }

 protected:
  int lanes() const { return lanes_; }
  auto kernel() const {
    return with_steps(steps_, [&]<int kWidth>() { return Plan::template kernel_of<kWidth>(); });
  }
  /// Blocks that hold the matrix once.
  unsigned blocks() const { return blocks_for(Offset{this->a().rows} * lanes_, kLanesBlock); }
  /// How many times the chip holds the matrix at once; 1 where it does not hold it.
  unsigned copies() const {
    const int at_once =
        resident_blocks_per_sm(kernel(), kLanesBlock, this->shared_bytes(this->a())) * device_facts().sms;
    return copies_on_chip(at_once, blocks());
  }

 private:
  int lanes_;
  int steps_;  ///< non-zeros that a lane keeps, padding included
};

}  // namespace stages
