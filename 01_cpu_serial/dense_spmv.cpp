// SpMV on a matrix stored densely: where the course starts.
//
// The idea: write out every element of A, zeros included, and multiply row by row. Nothing has to be looked
// up, each row is a dot product of two contiguous arrays, and the processor multiplies at full width. Most of
// the products are with zero.
//
// Input: rows x cols elements must fit into memory; the entry says so where they do not. Cost: rows x cols
// multiplications and rows x cols x sizeof(T) bytes from memory for each product, against nnz of either for a
// sparse form. The dense form can win only where more than about two thirds of A is non-zero: a CSR entry
// moves sizeof(T) + 4 bytes, and its x[col] cannot be loaded by the vector.

#include <fmt/format.h>

#include <array>

#include "01_cpu_serial/stage.hpp"
#include "common/matrix/convert.hpp"

namespace stages {
namespace {

/// As many partial sums as make up for the latency of an addition at full vector width. Each adds up every
/// kSums-th product, so the order of summation is fixed by the row's length alone.
constexpr std::size_t kSums = 32;

template <class T>
T dense_dot(const T* a, const T* x, std::size_t length) {
  std::array<T, kSums> sums{};
  std::size_t j = 0;
  for (; j + kSums <= length; j += kSums) {
    for (std::size_t s = 0; s < kSums; ++s) sums[s] += a[j + s] * x[j + s];
  }
  for (std::size_t s = 0; j < length; ++j, ++s) sums[s] += a[j] * x[j];
  for (std::size_t width = kSums / 2; width > 0; width /= 2) {
    for (std::size_t s = 0; s < width; ++s) sums[s] += sums[s + width];
  }
  return sums[0];
}

template <class T>
double dense_bytes(const SpmvProblem<T>& problem) {
  return static_cast<double>(problem.a->rows) * problem.a->cols * sizeof(T);
}

template <class T>
class DenseSpmv final : public HostSpmvPlan<T> {
 public:
  DenseSpmv(const SpmvProblem<T>& problem, Exec& /*exec*/)
      : HostSpmvPlan<T>(problem), dense_(to_dense(*problem.a)) {}

  static Cost cost(const SpmvProblem<T>& problem) {
    Cost cost = problem_cost(problem);
    cost.work = static_cast<double>(problem.a->rows) * problem.a->cols * problem.products;
    cost.memory += dense_bytes(problem);
    return cost;
  }
  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec& exec) {
    const double needed = dense_bytes(problem), limit = exec.memory_limit();
    if (needed <= limit) return std::nullopt;
    return fmt::format("A stored densely takes {:.3g} GB, and {:.3g} GB are to be had", needed / 1e9,
                       limit / 1e9);
  }

 private:
  void product(const T* x, T* y) override {
    for (Index i = 0; i < dense_.rows; ++i) {
      y[i] = dense_dot(dense_.data.data() + i * dense_.ld, x, static_cast<std::size_t>(dense_.cols));
    }
  }

  Dense<T> dense_;
};

}  // namespace

void cpu_serial::add_dense_spmv(Registry& registry) {
  registry.add<DenseSpmv>(
      {.name = "01_cpu_serial/dense_spmv", .idea = "A stored densely: every zero is multiplied"});
}

}  // namespace stages
