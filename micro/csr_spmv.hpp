#pragma once
// The frame of the micro-exercises for y = A x on a GPU: all but the ten lines that are the exercise.

#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"
#include "common/harness/registry.hpp"

namespace stages::micro {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

/// Row i of A is at positions row_ptr[i] .. row_ptr[i + 1] - 1 of col_idx and values. All are 32-bit numbers.
template <class T>
using DeviceRows = CsrView<T, std::int32_t>;

/// A in device memory. A derived class gives multiply(a, x, y, stream), which launches its kernel: y = A x.
template <class T>
class CsrSpmv : public DeviceSpmvPlan<T> {
 public:
  CsrSpmv(const SpmvProblem<T>& problem, Exec& exec) : DeviceSpmvPlan<T>(problem, exec), csr_(*problem.a) {}

  static Cost cost(const SpmvProblem<T>& problem) { return problem_cost(problem); }

 protected:
  virtual void multiply(const DeviceRows<T>& a, const T* x, T* y, cudaStream_t stream) = 0;

  std::int32_t nnz() const { return static_cast<std::int32_t>(this->a().nnz()); }

 private:
  void product(const T* x, T* y) final { multiply(csr_.view(), x, y, this->stream()); }

  DeviceCsr<T, std::int32_t> csr_;
};

/// The sum over a warp, in lane 0.
template <class T>
__device__ T sum_of_warp(T sum) {
  for (unsigned d = kWarp / 2; d > 0; d /= 2) sum += __shfl_down_sync(kAllLanes, sum, d);
  return sum;
}

}  // namespace stages::micro
