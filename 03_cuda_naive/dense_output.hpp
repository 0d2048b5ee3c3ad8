#pragma once
// What the two SpGEMM rungs of this step share: C written out in full on the device, and made into CSR by the
// host, as the course project did it.

#include "common/gpu/frames.hpp"

namespace stages {

inline constexpr unsigned kTile = 16;           ///< a block computes 16 x 16 elements of C
inline constexpr unsigned kMostBlocks = 65535;  ///< of a grid in y

/// C(i, j): the sparse dot product of A's row i and B's column j. Two pointers walk along the two sorted
/// lists; where the indices agree there is a product, otherwise the smaller one steps on.
template <class T>
__device__ T sparse_dot(CsrView<T> a, CscView<T> b, Index i, Index j) {
  Offset p = a.row_ptr[i], q = b.col_ptr[j];
  const Offset p_end = a.row_ptr[i + 1], q_end = b.col_ptr[j + 1];
  T sum = 0;
  while (p < p_end && q < q_end) {
    const Index k = a.col_idx[p], l = b.row_idx[q];
    if (k == l) sum += a.values[p] * b.values[q];
    p += k <= l;
    q += l <= k;
  }
  return sum;
}

/// A frame (registry.hpp): multiply(a, b, c, stream), the entry's lambda, launches the kernel.
template <class T>
class DenseOutputPlan : public SpgemmPlan<T> {
 public:
  static constexpr Needs kNeeds = {.gpu = true};
  using Multiply = void(CsrView<T> a, CscView<T> b, DenseView<T> c, cudaStream_t stream);

  DenseOutputPlan(const SpgemmProblem<T>& problem, Exec& exec)
      : exec_(as_gpu(exec)),
        a_(*problem.a),
        b_(*problem.b),
        b_columns_(to_csc(b_)),
        a_on_device_(a_),
        b_ptr_(std::span<const Offset>(b_columns_.col_ptr)),
        b_rows_(std::span<const Index>(b_columns_.row_idx)),
        b_values_(std::span<const T>(b_columns_.values)),
        dense_c_(a_.rows, b_.cols),
        c_on_device_(dense_c_.data.size()) {}

  static Cost cost(const SpgemmProblem<T>& problem) {
    const double m = problem.a->rows, n = problem.b->cols;
    const auto nnz_a = static_cast<double>(problem.a->nnz()), nnz_b = static_cast<double>(problem.b->nnz());
    return problem_cost(problem)
        .with_work(nnz_a * n + nnz_b * m + m * n)
        .plus_memory(2 * m * n * sizeof(T) + 3 * (8 + sizeof(T)) * nnz_b + 8 * n);
  }

  /// Fits both orders of the grid, as the dimensions change their places between the two rungs.
  static std::optional<std::string> refuse(const SpgemmProblem<T>& problem, Exec&) {
    const Index most = std::max(problem.a->rows, problem.b->cols);
    if (blocks_for(most, kTile) <= kMostBlocks) return std::nullopt;
    return fmt::format("C has {} rows or columns, and one grid reaches {}", most, kMostBlocks * kTile);
  }

  void load(const SpgemmOperands<T>& operands) override {
    b_.values = operands.b_values;
    b_columns_ = to_csc(b_);
    a_on_device_.values.upload(operands.a_values, exec_.stream());
    b_values_.upload(b_columns_.values, exec_.stream());
    exec_.synchronize();
  }
  void reset() override {
    c_ = {};
    c_on_device_.fill_bytes(0xFF, exec_.stream());  // NaN: an element without a thread shows
  }
  void run() override {
    {
      Phase phase(exec_, "multiply");
      multiply(a_on_device_.view(), {b_.rows, b_.cols, b_ptr_.data(), b_rows_.data(), b_values_.data()},
               {a_.rows, b_.cols, dense_c_.ld, Layout::row_major, c_on_device_.data()}, exec_.stream());
    }
    {
      Phase phase(exec_, "copy");
      c_on_device_.download(dense_c_.data, exec_.stream());
      exec_.synchronize();
    }
    Phase phase(exec_, "compact");
    c_ = to_csr(dense_c_);
  }
  Csr<T> fetch() override { return c_; }

 protected:
  virtual void multiply(CsrView<T> a, CscView<T> b, DenseView<T> c, cudaStream_t stream) = 0;

 private:
  GpuExec& exec_;
  Csr<T> a_, b_;
  Csc<T> b_columns_;
  DeviceCsr<T, Offset> a_on_device_;
  DeviceArray<Offset> b_ptr_;
  DeviceArray<Index> b_rows_;
  DeviceArray<T> b_values_;
  Dense<T> dense_c_;
  DeviceArray<T> c_on_device_;
  Csr<T> c_;  ///< the result of the last run
};

}  // namespace stages
