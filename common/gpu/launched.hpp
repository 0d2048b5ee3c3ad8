#pragma once
// Entries without a plan of their own: a frame, which has the operands on the device, and a launch.

#include <type_traits>
#include <utility>

#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"
#include "common/harness/registry.hpp"

namespace stages {

/// A frame whose multiply() calls an object of type Launch. `Multiply`: the type of multiply().
template <class Frame, class Launch, class Multiply = typename Frame::Multiply>
class LaunchedPlan;
template <class Frame, class Launch, class... Args>
class LaunchedPlan<Frame, Launch, void(Args...)> final : public Frame {
 public:
  using Frame::Frame;

 private:
  void multiply(Args... args) override {
    using Host = decltype(*std::declval<typename Frame::Problem>().a);
    if constexpr (std::is_invocable_v<Launch, Args..., Host>) {
      Launch{}(args..., this->a());
    } else {
      Launch{}(args...);
    }
  }
};

template <template <class> class Frame, class Launch>
struct Launched {
  template <class T>
  using Plan = LaunchedPlan<Frame<T>, Launch>;
};

/// Registers an entry for a GPU: a frame, and what launches its kernels. That is a lambda with the arguments of
/// the frame's multiply(), and behind them, in some micro-exercises, A in the host's memory.
template <template <class> class Frame, class Launch>
void add_launched(Registry& registry, EntryInfo info, Launch /*multiply*/) {
  info.needs.gpu = true;
  registry.add<Launched<Frame, Launch>::template Plan>(std::move(info));
}

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
