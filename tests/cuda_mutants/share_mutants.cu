// SpMM by equal shares of the non-zeros, which add their parts of rows to C by atomics, with planted faults.

#include "tests/cuda_mutants/faulty_plan.hpp"

namespace stages::cuda_mutants {
namespace {

constexpr Offset kShare = 16;  ///< non-zeros: small, so that small matrices have rows in several shares

/// A block a row, the lanes over the columns: C is what beta asks for.
template <class T>
__global__ void set_c(DenseView<T> c, T beta, Offset columns) {
  for (Offset j = threadIdx.x; j < columns; j += kWarp) {
    T& element = c.data[blockIdx.x * c.ld + j];
    element = beta == T{0} ? T{0} : beta * element;
  }
}

/// Block (share, strip), a lane per column.
template <class T>
__global__ void add_share(CsrView<T> a, DenseView<const T> b, DenseView<T> c, T alpha, Fault fault) {
  const auto column = static_cast<Index>(blockIdx.y * kWarp + threadIdx.x);
  if (column >= c.cols) return;
  const Offset begin = blockIdx.x * kShare, end = min(begin + kShare, a.row_ptr[a.rows]);
  Index row = 0;
  while (a.row_ptr[row + 1] <= begin) ++row;
  for (Offset p = begin; p < end; ++row) {
    T sum = 0;
    for (; p < min(end, a.row_ptr[row + 1]); ++p) {
      T value = b.data[a.col_idx[p] * b.ld + column];
      if constexpr (sizeof(T) == sizeof(float)) {
        if (fault == Fault::eleven_bits) value = __int_as_float(__float_as_int(value) & ~0x1fff);
      }
      sum += a.values[p] * value;
    }
    atomicAdd(&c.data[row * c.ld + column], alpha * sum);
  }
}

template <class T>
class AtomicPlan final : public FaultySpmm<T> {
 public:
  using FaultySpmm<T>::FaultySpmm;

  static std::optional<std::string> refuse(const SpmmProblem<T>& problem, Exec&) {
    if (problem.b_layout == Layout::row_major && problem.c_layout == Layout::row_major) return std::nullopt;
    return "is for 2 row-major operands";
  }
  void run() override {
    const auto c = this->c();
    auto b = this->b();
    if (this->has(Fault::b_without_padding)) b.ld = b.cols;
    if (!this->has(Fault::unzeroed) && (!this->has(Fault::set_once) || runs_ == 0))
      this->launch_warps(set_c<T>, static_cast<unsigned>(c.rows), c, this->problem().beta,
                         this->has(Fault::zeroes_padding) ? c.ld : Offset{c.cols});
    ++runs_;
    this->launch_warps(add_share<T>,
                       {blocks_for(this->problem().a->nnz(), kShare), blocks_for(c.cols, kWarp)},
                       this->matrix_.view(), b, c, this->problem().alpha, this->fault_);
  }

 private:
  int runs_ = 0;
};

}  // namespace

Entry atomic_entry(Fault fault) {
  return entry_with<AtomicPlan>("mutant/atomics", fault, {.bitwise_reproducible = false});
}

}  // namespace stages::cuda_mutants
