#pragma once
// What the plans with planted faults share.

#include <utility>

#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"
#include "tests/cuda_mutants/mutants.hpp"

namespace stages::cuda_mutants {

/// A on the device, the fault, and launches of blocks of one warp.
template <class Base, class Problem>
class FaultyPlan : public Base {
 public:
  FaultyPlan(const Problem& problem, Exec& exec, Fault fault)
      : Base(problem, exec), fault_(fault), matrix_(*problem.a) {}

 protected:
  bool has(Fault fault) const { return fault_ == fault; }
  template <class... P, class... Args>
  void launch_warps(void (*kernel)(P...), dim3 grid, Args&&... args) {
    launch(kernel, {.grid = grid, .block = kWarp, .stream = this->stream()}, std::forward<Args>(args)...);
  }

  const Fault fault_;
  DeviceCsr<typename Problem::Value, Offset> matrix_;
};

template <class T>
using FaultySpmv = FaultyPlan<DeviceSpmvPlan<T>, SpmvProblem<T>>;
template <class T>
using FaultySpmm = FaultyPlan<DeviceSpmmPlan<T>, SpmmProblem<T>>;

template <template <class> class PlanOf>
Entry entry_with(const char* name, Fault fault, const Claims& claims = {}) {
  Registry registry;
  registry.add<PlanOf>({.name = name, .idea = "a planted fault", .claims = claims, .needs = {.gpu = true}},
                       fault);
  return registry.entries().front();
}

}  // namespace stages::cuda_mutants
