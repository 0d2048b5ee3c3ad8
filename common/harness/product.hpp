#pragma once
// One product of an entry, for who looks at it.

#include <functional>
#include <memory>

#include "common/harness/operands.hpp"
#include "common/harness/registry.hpp"

namespace stages {

/// Prepares the entry for the problem and loads operands; what is returned then runs one product and waits
/// for it. Throws what the entry throws.
template <class Problem>
std::function<void()> one_product(const Entry& entry, const Problem& problem, Exec& exec) {
  std::shared_ptr plan = entry.on<Problem>().prepare(problem, exec);
  plan->load(make_operands(problem, ValueKind::real, 1));
  plan->reset();
  return [plan, &exec] {
    plan->run();
    exec.synchronize();
  };
}

}  // namespace stages
