#pragma once
// The frame of the exercises for C = alpha A B + beta C on a GPU, with A in CSR and dense B and C: all of them
// in device memory, and the entry. An exercise has the kernels and their launch.

#include "micro/gpu.hpp"

namespace stages::micro {

/// What is to be multiplied. b(k, j) and c(i, j) are elements, whatever the layout.
template <class T>
struct Spmm {
  DeviceRows<T> a;
  DenseView<const T> b;
  DenseView<T> c;
  T alpha, beta;
  cudaStream_t stream;
  const Csr<T>& host;  ///< A in the host's memory

  /// Strips of 32 columns of C, one for each warp that shares a row.
  unsigned strips() const { return (static_cast<unsigned>(c.cols) + kWarp - 1) / kWarp; }
  /// Non-zeros of the longest row.
  Offset longest() const { return host.longest_row(); }
};

/// A plan whose run() calls an object of type Launch.
template <class T, class Launch>
class LaunchedSpmm final : public DeviceSpmmPlan<T> {
 public:
  LaunchedSpmm(const SpmmProblem<T>& problem, Exec& exec)
      : DeviceSpmmPlan<T>(problem, exec), a_(*problem.a) {}

  void run() override {
    const SpmmProblem<T>& p = this->problem();
    Launch{}(Spmm<T>{a_.view(), this->b(), this->c(), p.alpha, p.beta, this->stream(), this->a()});
  }

 private:
  DeviceCsr<T, std::int32_t> a_;
};

/// Registers an entry, and what launches its kernels: multiply(p), where `p` is an Spmm.
template <class Launch>
void add_spmm(Registry& registry, EntryInfo info, Launch /*multiply*/) {
  registry.add(std::move(info), plans<LaunchedSpmm<float, Launch>, LaunchedSpmm<double, Launch>>());
}

}  // namespace stages::micro
