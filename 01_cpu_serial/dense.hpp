#pragma once
// What the entries share that store A densely: A written out, what it costs, and when it is too large.

#include <fmt/format.h>

#include "common/harness/exec.hpp"
#include "common/harness/plan.hpp"
#include "common/matrix/convert.hpp"

namespace stages::cpu_serial {

/// A derived class gives product(x, y) from dense(), which is row-major.
template <class T>
class DenseSpmvPlan : public HostSpmvPlan<T> {
 public:
  DenseSpmvPlan(const SpmvProblem<T>& problem, Exec& /*exec*/)
      : HostSpmvPlan<T>(problem), dense_(to_dense(*problem.a)) {}

  static Cost cost(const SpmvProblem<T>& problem) {
    return problem_cost(problem)
        .with_work(static_cast<double>(problem.a->rows) * problem.a->cols * problem.n_vectors)
        .plus_memory(dense_bytes(problem));
  }
  /// Why A doesn't fit into memory, with both sizes.
  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec& exec) {
    const double needed = dense_bytes(problem), limit = exec.memory_limit();
    if (needed <= limit) return std::nullopt;
    return fmt::format("A stored densely takes {:.3g} GB, and {:.3g} GB are to be had", needed / 1e9,
                       limit / 1e9);
  }

 protected:
  const Dense<T>& dense() const { return dense_; }

 private:
  static double dense_bytes(const SpmvProblem<T>& problem) {
    return static_cast<double>(problem.a->rows) * problem.a->cols * sizeof(T);
  }

  Dense<T> dense_;
};

}  // namespace stages::cpu_serial
