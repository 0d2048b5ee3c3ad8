#pragma once
// What the plans of SpGEMM with planted faults share.

#include <numeric>

#include "common/gpu/plans.hpp"
#include "common/harness/registry.hpp"

namespace stages::cuda_mutants {

/// The host adds up the counts, and makes C.
template <class T>
class CountedPlan : public DeviceSpgemmPlan<T> {
 public:
  CountedPlan(const SpgemmProblem<T>& problem, Exec& exec)
      : DeviceSpgemmPlan<T>(problem, exec), a_(*problem.a), b_(*problem.b) {}

  static Cost cost(const SpgemmProblem<T>& problem) { return problem_cost(problem); }

  void load(const SpgemmOperands<T>& operands) override {
    a_.values.upload(operands.a_values, this->stream());
    b_.values.upload(operands.b_values, this->stream());
    this->exec().synchronize();
  }

 protected:
  /// C with these row lengths, and nothing in it. With 16 bits, row pointers wrap around.
  DeviceCsr<T, Offset> make_result(const std::vector<Index>& counts, bool in_16_bits) {
    std::vector<Offset> row_ptr(counts.size() + 1, 0);
    std::partial_sum(counts.begin(), counts.end(), row_ptr.begin() + 1, std::plus<Offset>());
    DeviceCsr<T, Offset> c;
    c.rows = a_.rows;
    c.cols = b_.cols;
    c.col_idx = DeviceArray<Index>(static_cast<std::size_t>(row_ptr.back()));
    c.values = DeviceArray<T>(static_cast<std::size_t>(row_ptr.back()));
    c.values.fill_bytes(0xFF, this->stream());
    places_ = row_ptr;
    for (Offset& place : places_) place = in_16_bits ? static_cast<std::uint16_t>(place) : place;
    c.row_ptr = DeviceArray<Offset>(std::span<const Offset>(row_ptr));
    return c;
  }

  DeviceCsr<T, Offset> a_, b_;
  std::vector<Offset> places_;  ///< where the kernel puts the rows
};

template <template <class> class PlanOf, class... Faults>
Entry entry_with(const char* name, Faults... faults) {
  Registry registry;
  registry.add<PlanOf>({.name = name, .idea = "a planted fault", .needs = {.gpu = true}}, faults...);
  return registry.entries().front();
}

}  // namespace stages::cuda_mutants
