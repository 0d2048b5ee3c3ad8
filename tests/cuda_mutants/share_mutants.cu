// SpMV and SpMM by equal shares of the non-zeros, with planted faults: parts of rows are added to C by atomics,
// or by a second kernel.

#include "tests/cuda_mutants/faulty_plan.hpp"

namespace stages::cuda_mutants {
namespace {

constexpr Offset kShare = 16;  ///< non-zeros: small, so that small matrices have rows in several shares

/// Row-major views and scalars of one product.
template <class T>
struct Operands {
  CsrView<T> a;
  DenseView<const T> b;
  DenseView<T> c;
  T alpha = 1;
  T beta = 0;
};

template <class T>
__device__ T dot(const Operands<T>& m, Offset begin, Offset end, Index column) {
  T sum = 0;
  for (Offset p = begin; p < end; ++p) sum += m.a.values[p] * m.b.data[m.a.col_idx[p] * m.b.ld + column];
  return sum;
}

/// C = alpha sum + beta C, for one element.
template <class T>
__device__ void store(const Operands<T>& m, Index row, Index column, T sum) {
  T& element = m.c.data[row * m.c.ld + column];
  element = m.beta == T{0} ? m.alpha * sum : m.alpha * sum + m.beta * element;
}

/// A block a row, the lanes over the columns: C is what beta asks for.
template <class T>
__global__ void set_c(Operands<T> m, Offset columns) {
  for (Offset j = threadIdx.x; j < columns; j += kWarp)
    store(m, static_cast<Index>(blockIdx.x), static_cast<Index>(j), T{0});
}

/// Block (share, strip), a lane per column: a row that ends here is stored, of another the sum goes to the
/// share's slot. Without slots all sums are added to C.
template <class T>
__global__ void multiply_share(Operands<T> m, T* slots, Fault fault) {
  const Index column = static_cast<Index>(blockIdx.y * kWarp + threadIdx.x);
  if (column >= m.c.cols) return;
  const Offset begin = blockIdx.x * kShare, end = min(begin + kShare, m.a.row_ptr[m.a.rows]);
  const Offset slot = fault == Fault::wrong_slot ? (blockIdx.x + 1) % gridDim.x : blockIdx.x;
  Index row = 0;
  while (m.a.row_ptr[row + 1] <= begin) ++row;
  for (Offset p = begin; p < end; ++row) {
    const Offset row_end = m.a.row_ptr[row + 1], stop = min(end, row_end);
    const T sum = dot(m, p, stop, column);
    T& element = m.c.data[row * m.c.ld + column];
    if (slots == nullptr && fault == Fault::plain_add) {
      element += m.alpha * sum;
    } else if (slots == nullptr) {
      atomicAdd(&element, m.alpha * sum);
    } else if (p < stop && stop == row_end) {
      store(m, row, column, sum);
    } else if (p < stop) {
      slots[slot * m.c.cols + column] = sum;
    }
    p = stop;
  }
}

/// Block (row, strip): adds the slots of all shares that hold a part of the row, but for the last of them.
template <class T>
__global__ void finish_row(Operands<T> m, const T* slots, Fault fault) {
  const Index row = static_cast<Index>(blockIdx.x),
              column = static_cast<Index>(blockIdx.y * kWarp + threadIdx.x);
  if (column >= m.c.cols) return;
  const Offset begin = m.a.row_ptr[row], end = m.a.row_ptr[row + 1];
  if (begin == end) {
    if (fault != Fault::empty_rows_unset) store(m, row, column, T{0});
    return;
  }
  if (fault == Fault::slots_not_added) return;
  const Offset last = (end - 1) / kShare;
  Offset first = begin / kShare + (fault == Fault::one_part_lost);
  if (fault == Fault::one_carry) first = max(first, last - 1);
  T sum = 0;
  for (Offset share = first; share < last; ++share) sum += slots[share * m.c.cols + column];
  m.c.data[row * m.c.ld + column] += fault == Fault::alpha_forgotten ? sum : m.alpha * sum;
}

/// What the plans below share.
template <class T, class Plan, class Problem>
class SharesPlan : public FaultyPlan<Plan, Problem> {
 public:
  SharesPlan(const Problem& problem, Exec& exec, Fault fault)
      : FaultyPlan<Plan, Problem>(problem, exec, fault), shares_(blocks_for(problem.a->nnz(), kShare)) {
    if (this->has(Fault::last_share_dropped) && problem.a->nnz() % kShare != 0) --shares_;
  }

 protected:
  static unsigned strips(const Operands<T>& m) { return blocks_for(m.c.cols, kWarp); }
  void multiply_shares(const Operands<T>& m, T* slots) {
    const unsigned full = static_cast<unsigned>(m.c.cols) / kWarp;
    const unsigned strips_done = this->has(Fault::missing_tail_strip) ? full : strips(m);
    this->launch_warps(multiply_share<T>, {shares_, strips_done}, m, slots, this->fault_);
  }
  void multiply_and_finish(const Operands<T>& m) {
    if (slots_.empty()) {
      slots_ = DeviceArray<T>((std::size_t{shares_} + 1) * static_cast<std::size_t>(m.c.cols));
      slots_.fill_bytes(0xFF, this->stream());
    }
    const auto finish = [&] {
      this->launch_warps(finish_row<T>, {static_cast<unsigned>(m.c.rows), strips(m)}, m, slots_.data(),
                         this->fault_);
    };
    if (this->has(Fault::fix_up_first)) finish();
    multiply_shares(m, slots_.data());
    if (!this->has(Fault::fix_up_first) && !this->has(Fault::fix_up_lost)) finish();
  }

 private:
  unsigned shares_;
  DeviceArray<T> slots_;
};

/// y = A x is a C of one column.
template <class T>
class SpmvSharePlan final : public SharesPlan<T, DeviceSpmvPlan<T>, SpmvProblem<T>> {
 public:
  using SharesPlan<T, DeviceSpmvPlan<T>, SpmvProblem<T>>::SharesPlan;

 protected:
  void product(const T* x, T* y) override {
    const Csr<T>& a = this->a();
    this->multiply_and_finish(
        {this->matrix_.view(), {a.cols, 1, 1, Layout::row_major, x}, {a.rows, 1, 1, Layout::row_major, y}});
  }
};

template <class T>
class SpmmSharePlan : public SharesPlan<T, DeviceSpmmPlan<T>, SpmmProblem<T>> {
 public:
  using SharesPlan<T, DeviceSpmmPlan<T>, SpmmProblem<T>>::SharesPlan;

  static std::optional<std::string> refuse(const SpmmProblem<T>& problem, Exec&) {
    if (problem.b_layout == Layout::row_major && problem.c_layout == Layout::row_major) return std::nullopt;
    return "is for 2 row-major operands";
  }
  void run() override { this->multiply_and_finish(operands()); }

 protected:
  Operands<T> operands() {
    return {this->matrix_.view(), this->b(), this->c(), this->problem().alpha, this->problem().beta};
  }
};

template <class T>
class AtomicPlan final : public SpmmSharePlan<T> {
 public:
  using SpmmSharePlan<T>::SpmmSharePlan;

  void run() override {
    Operands<T> m = this->operands();
    if (this->has(Fault::b_without_padding)) m.b.ld = m.b.cols;
    if (this->has(Fault::beta_ignored)) m.beta = T{0};
    if (!this->has(Fault::unzeroed) && (!this->has(Fault::set_once) || runs_ == 0))
      this->launch_warps(set_c<T>, static_cast<unsigned>(m.c.rows), m,
                         this->has(Fault::zeroes_padding) ? m.c.ld : Offset{m.c.cols});
    ++runs_;
    // A larger one would leave the array; the fault is about a C that has room for it.
    if (this->has(Fault::c_with_ld_of_b)) m.c.ld = std::min(m.b.ld, m.c.ld);
    this->multiply_shares(m, nullptr);
  }

 private:
  int runs_ = 0;
};

}  // namespace

Entry share_entry(Fault fault) {
  return entry_with<SpmvSharePlan>("mutant/spmv_shares", fault);
}
Entry spmm_share_entry(Fault fault) {
  return entry_with<SpmmSharePlan>("mutant/spmm_shares", fault);
}
Entry atomic_entry(Fault fault) {
  return entry_with<AtomicPlan>("mutant/atomics", fault, {.bitwise_reproducible = false});
}

}  // namespace stages::cuda_mutants
