// For experts. SpMV on a matrix stored densely, with 32 sums a row.
//
// The idea: 1_dense_spmv_plain.cpp adds up a row in one variable, and each addition waits for the one before
// it. Here a row has kSums sums, each of every kSums-th product. They do not wait for each other, they fit
// into a few vector registers, and the processor multiplies at full width. They are added up at the row's
// end, so the order of all additions is fixed by the row's length alone.
//
// Input and cost: as 1_dense_spmv_plain.cpp; what is left is reading A. The dense form can win only where
// more than about two thirds of A is non-zero: a CSR non-zero moves sizeof(T) + 4 bytes, and its x[col] cannot
// be loaded by the vector.

#include <array>

#include "01_cpu_serial/dense.hpp"
#include "01_cpu_serial/stage.hpp"

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
class DenseSpmv final : public cpu_serial::DenseSpmvPlan<T> {
  using cpu_serial::DenseSpmvPlan<T>::DenseSpmvPlan;

  void product(const T* x, T* y) override {
    const Dense<T>& a = this->dense();
    for (Index i = 0; i < a.rows; ++i)
      y[i] = dense_dot(a.data.data() + i * a.ld, x, static_cast<std::size_t>(a.cols));
  }
};

}  // namespace

void cpu_serial::add_dense_spmv(Registry& registry) {
  registry.add<DenseSpmv>({.name = "01_cpu_serial/dense_spmv",
                           .idea = "A stored densely, 32 sums a row: none waits for another",
                           .previous = "dense_spmv_plain"});
}

}  // namespace stages
