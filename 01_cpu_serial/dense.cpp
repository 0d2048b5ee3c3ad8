#include "01_cpu_serial/dense.hpp"

#include <fmt/format.h>

#include "common/matrix/convert.hpp"

namespace stages::cpu_serial {
namespace {

template <class T>
double dense_bytes(const SpmvProblem<T>& problem) {
  return static_cast<double>(problem.a->rows) * problem.a->cols * sizeof(T);
}

}  // namespace

template <class T>
DenseSpmvPlan<T>::DenseSpmvPlan(const SpmvProblem<T>& problem, Exec& /*exec*/)
    : HostSpmvPlan<T>(problem), dense_(to_dense(*problem.a)) {}

template <class T>
Cost DenseSpmvPlan<T>::cost(const SpmvProblem<T>& problem) {
  Cost cost = problem_cost(problem);
  cost.work = static_cast<double>(problem.a->rows) * problem.a->cols * problem.products;
  cost.memory += dense_bytes(problem);
  return cost;
}

template <class T>
std::optional<std::string> DenseSpmvPlan<T>::refuse(const SpmvProblem<T>& problem, Exec& exec) {
  const double needed = dense_bytes(problem), limit = exec.memory_limit();
  if (needed <= limit) return std::nullopt;
  return fmt::format("A stored densely takes {:.3g} GB, and {:.3g} GB are to be had", needed / 1e9,
                     limit / 1e9);
}

template class DenseSpmvPlan<float>;
template class DenseSpmvPlan<double>;

}  // namespace stages::cpu_serial
