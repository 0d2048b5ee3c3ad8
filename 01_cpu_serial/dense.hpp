#pragma once
// What the entries share that store A densely: the matrix written out, what it costs, and when it is too
// large.

#include <optional>
#include <string>

#include "common/harness/exec.hpp"
#include "common/harness/plan.hpp"

namespace stages::cpu_serial {

/// A derived class gives product(x, y) from dense(), which is row-major.
template <class T>
class DenseSpmvPlan : public HostSpmvPlan<T> {
 public:
  DenseSpmvPlan(const SpmvProblem<T>& problem, Exec& exec);

  static Cost cost(const SpmvProblem<T>& problem);
  /// Why A doesn't fit into memory, with both sizes.
  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec& exec);

 protected:
  const Dense<T>& dense() const { return dense_; }

 private:
  Dense<T> dense_;
};

extern template class DenseSpmvPlan<float>;
extern template class DenseSpmvPlan<double>;

}  // namespace stages::cpu_serial
