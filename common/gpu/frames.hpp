#pragma once
// Frames (registry.hpp), which have A on the device.

#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"

namespace stages {

/// The frame of entries that have A in CSR, with row pointers of 32 bits. multiply(): y = A x.
template <class T>
class CsrFrame : public DeviceSpmvPlan<T> {
 public:
  using Multiply = void(const CsrView<T, std::int32_t>& a, const T* x, T* y, cudaStream_t stream);

  CsrFrame(const SpmvProblem<T>& problem, Exec& exec) : DeviceSpmvPlan<T>(problem, exec), csr_(*problem.a) {}

 protected:
  virtual void multiply(const CsrView<T, std::int32_t>& a, const T* x, T* y, cudaStream_t stream) = 0;

 private:
  void product(const T* x, T* y) final { multiply(csr_.view(), x, y, this->stream()); }

  DeviceCsr<T, std::int32_t> csr_;
};

/// The frame of entries that have A written out in full. multiply(): y = A x.
template <class T, Layout kLayout, Ld kLd = Ld::tight>
struct DenseFrame : DenseSpmvPlan<T, kLayout, kLd> {
  using DenseSpmvPlan<T, kLayout, kLd>::DenseSpmvPlan;
  using Multiply = void(const DenseView<const T>& a, const T* x, T* y, cudaStream_t stream);
};
template <class T>
using DenseByRows = DenseFrame<T, Layout::row_major>;
template <class T>
using DenseByColumns = DenseFrame<T, Layout::col_major>;

}  // namespace stages
