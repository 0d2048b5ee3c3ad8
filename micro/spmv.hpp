#pragma once
// The frame of the exercises for y = A x on a GPU: A in device memory, x and y that come and go, the entry. An
// exercise has the kernel and its launch. One that needs more than A has a class of its own, derived from one
// of these.

#include "micro/gpu.hpp"

namespace stages::micro {

/// A in CSR. A derived class gives multiply(a, x, y, stream), which launches its kernel: y = A x.
template <class T>
class CsrSpmv : public DeviceSpmvPlan<T> {
 public:
  using Multiply = void(const DeviceRows<T>& a, const T* x, T* y, cudaStream_t stream);

  CsrSpmv(const SpmvProblem<T>& problem, Exec& exec) : DeviceSpmvPlan<T>(problem, exec), csr_(*problem.a) {}

 protected:
  virtual void multiply(const DeviceRows<T>& a, const T* x, T* y, cudaStream_t stream) = 0;

 private:
  void product(const T* x, T* y) final { multiply(csr_.view(), x, y, this->stream()); }

  DeviceCsr<T, std::int32_t> csr_;
};

/// A written out in full, one column after the other: element (i, j) is at a.data[j * a.ld + i].
template <class T>
using ColumnsSpmv = DenseByColumns<T>;

/// Registers an entry: a frame, CsrSpmv or ColumnsSpmv, and what launches its kernels. That is called as
/// multiply(a, x, y, stream), or as multiply(a, x, y, stream, host), where `host` is A in the host's memory.
template <template <class> class Frame, class Launch>
void add_spmv(Registry& registry, EntryInfo info, Launch multiply) {
  add_launched<Frame>(registry, std::move(info), multiply);
}

}  // namespace stages::micro
