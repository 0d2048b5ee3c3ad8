#pragma once
// What rungs 3 to 5 share beside one_launch.hpp: how many lanes a row gets and how many non-zeros a lane keeps,
// which the kernel is compiled for (lanes.hpp), and the launch. Each gives its kernel.

#include "06_cuda_register/lanes.hpp"
#include "06_cuda_register/one_launch.hpp"
#include "06_cuda_register/stage.hpp"

namespace stages {

/// How often the chip is to hold the matrix: the second dimension of the grid.
enum class Copies { one, all_that_fit };

/// `kBlock`: threads of a block. `Kernel`: Kernel{}.operator()<T, kWidth>() is the kernel of that width.
/// `Element`: as in OneLaunchPlan.
template <class T, int kBlock, class Kernel, Copies kCopies, class Element>
class LanesPlan final : public OneLaunchPlan<T, 1, Element> {
  using Base = OneLaunchPlan<T, 1, Element>;

 public:
  LanesPlan(const SpmvProblem<T>& problem, Exec& exec)
      : Base(problem, exec),
        lanes_(lanes_for(*problem.a, kMostSteps)),
        steps_(steps_for(resident_steps(*problem.a, lanes_))) {
    allow_shared_bytes(kernel(), this->shared_bytes(*problem.a));
  }

  void run() override {
    this->launch_once(kernel(), {blocks(), kCopies == Copies::one ? 1u : copies()}, kBlock, lanes_);
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

 private:
  auto kernel() const {
    return with_steps(steps_, []<int kWidth>() { return Kernel{}.template operator()<T, kWidth>(); });
  }
  /// Blocks that hold the matrix once.
  unsigned blocks() const { return blocks_for(Offset{this->a().rows} * lanes_, kBlock); }
  /// How many times the chip holds the matrix at once; 1 where it does not hold it.
  unsigned copies() const {
    const int at_once =
        resident_blocks_per_sm(kernel(), kBlock, this->shared_bytes(this->a())) * device_facts().sms;
    return copies_on_chip(at_once, blocks());
  }

  int lanes_;
  int steps_;  ///< non-zeros that a lane keeps, padding included
};

/// Registers an entry: kBlock and `kernel` as above.
template <int kBlock, Copies kCopies, template <class> class Element = std::type_identity_t, class Kernel>
void add_lanes(Registry& registry, EntryInfo info, Kernel /*kernel*/) {
  registry.add(std::move(info), plans<LanesPlan<float, kBlock, Kernel, kCopies, Element<float>>,
                                      LanesPlan<double, kBlock, Kernel, kCopies, Element<double>>>());
}

}  // namespace stages
