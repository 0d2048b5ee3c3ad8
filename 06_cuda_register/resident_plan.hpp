#pragma once
// What rungs 6 and 7 share: how the matrix lies on the device, what they refuse, and the launch of a kernel.

#include "06_cuda_register/resident.hpp"
#include "06_cuda_register/stage.hpp"
#include "common/gpu/facts.hpp"

namespace stages {

inline constexpr int kResidentBlock = 256;  ///< threads

/// `Kernel`: Kernel{}.operator()<T, kSteps>() is the kernel for shares of so many non-zeros. `kOrder`: in
/// which a lane takes them; one other than nullptr gets steps to spare.
template <class T, class Kernel, Order kOrder>
class ResidentPlan final : public DeviceSpmvPlan<T> {
  /// What prepare decides and refuse() tells.
  struct Shape {
    int lanes = 0;
    int steps = 0;
    unsigned blocks = 0;  ///< that hold the matrix once
    std::size_t shared_bytes = 0;
    int resident_blocks = 0;  ///< blocks that the chip holds at once
  };

 public:
  ResidentPlan(const SpmvProblem<T>& problem, Exec& exec)
      : DeviceSpmvPlan<T>(problem, exec),
        shape_(shape_for(*problem.a)),
        copies_(copies_on_chip(shape_.resident_blocks, shape_.blocks)),
        matrix_(*problem.a, shape_.lanes, shape_.steps, sizeof(Batch<T>), kOrder) {}

  void run() override {
    launch(kernel(shape_.steps),
           {.grid = {shape_.blocks, copies_},
            .block = kResidentBlock,
            .shared_bytes = shape_.shared_bytes,
            .stream = this->stream()},
           matrix_.view(), this->x_of(0), this->y_of(0), this->problem().n_vectors);
  }

  std::vector<Metric> metrics() const override {
    const KernelFacts facts = kernel_facts(kernel(shape_.steps));
    return {{"lanes_per_row", static_cast<double>(shape_.lanes), ""},
            {"non_zeros_per_lane", static_cast<double>(shape_.steps), ""},
            {"copies_of_the_matrix", static_cast<double>(copies_), ""},
            {"bank_conflicts", static_cast<double>(matrix_.conflicts()), ""},
            registers_metric(facts),
            local_metric(facts)};
  }

  static Cost cost(const SpmvProblem<T>& problem) {
    Cost cost = problem_cost(problem);
    if (const int lanes = lanes_for(*problem.a, kMostSteps); lanes > 0) {
      const double steps = steps_for(wanted_steps(*problem.a, lanes)), kept = steps * lanes * problem.a->rows;
      cost.memory += 2 * kept * (sizeof(T) + 2);  // on the host, too, for a while
      cost.work += kept;
    }
    return cost;
  }

  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec&) {
    const Csr<T>& a = *problem.a;
    if (problem.mode == Mode::chain) {
      return fmt::format("its vectors are independent, and these {} are a chain; see chain_words",
                         problem.n_vectors);
    }
    if (a.cols > kMostResidentColumns) {
      return fmt::format("{} columns do not fit into 16 bits; at most {} do", a.cols, kMostResidentColumns);
    }
    if (auto reason = refuse_long_rows(a)) return reason;
    const Shape shape = shape_for(a);
    if (shape.resident_blocks == 0) {
      return fmt::format("x needs {} bytes of shared memory a block; the device has {}", shape.shared_bytes,
                         device_facts().shared_per_block_optin);
    }
    return std::nullopt;
  }

 private:
  static auto kernel(int steps) {
    return with_steps(steps, []<int kSteps>() { return Kernel{}.template operator()<T, kSteps>(); });
  }
  static int wanted_steps(const Csr<T>& a, int lanes) {
    const int needed = resident_steps(a, lanes);
    return kOrder == nullptr ? needed : with_spare(needed);
  }

  static Shape shape_for(const Csr<T>& a) {
    Shape shape{.lanes = lanes_for(a, kMostSteps)};
    const int needed = resident_steps(a, shape.lanes), most = steps_for(wanted_steps(a, shape.lanes));
    shape.blocks = blocks_for(Offset{a.rows} * shape.lanes, kResidentBlock);
    shape.shared_bytes =
        sizeof(Batch<T>) * (static_cast<std::size_t>(a.cols) + shared_banks(sizeof(Batch<T>)));
    if (shape.shared_bytes > device_facts().shared_per_block_optin) return shape;
    // Steps to spare are given up where more blocks then fit onto an SM: we suppose that their warps hide more
    // latency than the order by banks loses.
    for (const int steps : kStepChoices) {
      if (steps < needed || steps > most) continue;
      allow_shared_bytes(kernel(steps), shape.shared_bytes);
      const int blocks =
          device_facts().sms * resident_blocks_per_sm(kernel(steps), kResidentBlock, shape.shared_bytes);
      if (blocks < shape.resident_blocks) break;
      shape.steps = steps;
      shape.resident_blocks = blocks;
    }
    return shape;
  }

  void product(const T*, T*) final {}  // run() does them all in one launch
  Shape shape_;
  unsigned copies_;
  ResidentMatrix<T> matrix_;
};

/// Registers an entry: `kernel` and kOrder as above.
template <Order kOrder, class Kernel>
void add_resident(Registry& registry, EntryInfo info, Kernel /*kernel*/) {
  registry.add(std::move(info),
               plans<ResidentPlan<float, Kernel, kOrder>, ResidentPlan<double, Kernel, kOrder>>());
}

}  // namespace stages
