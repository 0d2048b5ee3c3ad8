// Eigen as its users would call it, on one thread.
//
// Every matrix is an Eigen::Map over the arrays that are there already, with Eigen's default 32-bit
// StorageIndex: prepare narrows the row pointers, and refuses a matrix whose positions do not fit. Row-major
// throughout, because that is the form whose sparse x dense kernels run along the rows. Eigen's own
// assertions are off, as in any release build.
//
// SpGEMM is written as C^T = B^T A^T on column-major views of the same arrays. That is the same product, and
// gives Eigen the choice that it has for column-major operands only: where C has more columns than rows it
// sorts each row as it is made, else it sorts by transposing twice, as it always does for row-major ones.

#ifndef EIGEN_NO_DEBUG
#define EIGEN_NO_DEBUG
#endif
#define EIGEN_DONT_PARALLELIZE

#include <Eigen/Core>
#include <Eigen/SparseCore>
#include <limits>

#include "common/matrix/error.hpp"
#include "common/vendor/vendor.hpp"

namespace stages {
namespace {

template <class T, int Order>
using Sparse = Eigen::SparseMatrix<T, Order, Index>;

constexpr Offset kMaxPositions = std::numeric_limits<Index>::max();

std::optional<std::string> refuse_positions(Offset positions, const char* what) {
  if (positions <= kMaxPositions) return std::nullopt;
  return fmt::format("{} has {} entries, and Eigen's 32-bit storage index counts {}", what, positions,
                     kMaxPositions);
}

Buffer<Index> narrow_row_ptr(const Buffer<Offset>& row_ptr) {
  Buffer<Index> narrowed(row_ptr.size());
  for (std::size_t i = 0; i < row_ptr.size(); ++i) narrowed[i] = narrow<Index>(row_ptr[i], "a row pointer");
  return narrowed;
}

template <class Problem>
Cost cost_with_row_ptr(const Problem& problem) {
  return problem_cost(problem).plus_memory(static_cast<double>(sizeof(Index)) * (problem.a->rows + 1.0));
}

template <class T>
Eigen::Map<const Sparse<T, Eigen::RowMajor>> row_major_map(const Csr<T>& a, const Buffer<Index>& row_ptr) {
  return {a.rows, a.cols, a.nnz(), row_ptr.data(), a.col_idx.data(), a.values.data()};
}

template <class T>
class EigenSpmv final : public HostSpmvPlan<T> {
 public:
  EigenSpmv(const SpmvProblem<T>& problem, Exec& /*exec*/)
      : HostSpmvPlan<T>(problem), row_ptr_(narrow_row_ptr(problem.a->row_ptr)) {}

  static Cost cost(const SpmvProblem<T>& problem) { return cost_with_row_ptr(problem); }
  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec& /*exec*/) {
    return refuse_positions(problem.a->nnz(), "A");
  }

 private:
  using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;

  void product(const T* x, T* y) override {
    const auto a = row_major_map(this->a(), row_ptr_);
    Eigen::Map<Vector>(y, a.rows()).noalias() = a * Eigen::Map<const Vector>(x, a.cols());
  }

  Buffer<Index> row_ptr_;
};

template <class T>
class EigenSpmm final : public HostSpmmPlan<T> {
 public:
  EigenSpmm(const SpmmProblem<T>& problem, Exec& /*exec*/)
      : HostSpmmPlan<T>(problem), row_ptr_(narrow_row_ptr(problem.a->row_ptr)) {}

  static Cost cost(const SpmmProblem<T>& problem) { return cost_with_row_ptr(problem); }
  static std::optional<std::string> refuse(const SpmmProblem<T>& problem, Exec& /*exec*/) {
    return refuse_positions(problem.a->nnz(), "A");
  }

  void run() override {
    const bool b_rows = this->b().layout == Layout::row_major, c_rows = this->c().layout == Layout::row_major;
    if (b_rows && c_rows) multiply<Eigen::RowMajor, Eigen::RowMajor>();
    if (b_rows && !c_rows) multiply<Eigen::RowMajor, Eigen::ColMajor>();
    if (!b_rows && c_rows) multiply<Eigen::ColMajor, Eigen::RowMajor>();
    if (!b_rows && !c_rows) multiply<Eigen::ColMajor, Eigen::ColMajor>();
  }

 private:
  // A one-column matrix counts as a vector, and Eigen's vectors are column-major only: with one column
  // and OuterStride as the distance of rows, the dynamic type below is still a matrix to the compiler.
  template <int Order>
  using DenseMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Order>;

  template <int OrderB, int OrderC>
  void multiply() {
    const auto a = row_major_map(this->a(), row_ptr_);
    const auto bv = this->b();
    const auto cv = this->c();
    const Eigen::Map<const DenseMatrix<OrderB>, 0, Eigen::OuterStride<>> b(bv.data, bv.rows, bv.cols,
                                                                           Eigen::OuterStride<>(bv.ld));
    Eigen::Map<DenseMatrix<OrderC>, 0, Eigen::OuterStride<>> c(cv.data, cv.rows, cv.cols,
                                                               Eigen::OuterStride<>(cv.ld));
    const T alpha = this->problem().alpha, beta = this->problem().beta;
    if (beta == T{0} && alpha == T{1}) {
      c.noalias() = a * b;
      return;
    }
    if (beta == T{0}) {
      c.setZero();
    } else if (beta != T{1}) {
      c *= beta;
    }
    c.noalias() += (alpha * a) * b;
  }

  Buffer<Index> row_ptr_;
};

template <class T>
class EigenSpgemm final : public HostSpgemmPlan<T> {
 public:
  static constexpr bool kChains = false;
  EigenSpgemm(const SpgemmProblem<T>& problem, Exec& /*exec*/)
      : HostSpgemmPlan<T>(problem),
        a_row_ptr_(narrow_row_ptr(problem.a->row_ptr)),
        b_row_ptr_(narrow_row_ptr(problem.b->row_ptr)) {}

  /// Sorting by transposing keeps two copies of C, and C grows by doubling.
  static Cost cost(const SpgemmProblem<T>& problem) {
    const double entry = sizeof(Index) + sizeof(T);
    return problem_cost(problem).plus_memory(2 * entry * static_cast<double>(problem.result_bound) +
                                             static_cast<double>(sizeof(T) + sizeof(Offset) + 1) *
                                                 problem.b->cols);
  }
  static std::optional<std::string> refuse(const SpgemmProblem<T>& problem, Exec& /*exec*/) {
    if (auto reason = refuse_positions(problem.a->nnz(), "A")) return reason;
    if (auto reason = refuse_positions(problem.b->nnz(), "B")) return reason;
    return refuse_positions(problem.result_bound, "C, by its bound,");
  }

  void reset() override { ct_ = {}; }
  void run() override { ct_ = transposed(this->b(), b_row_ptr_) * transposed(this->a(), a_row_ptr_); }

  Csr<T> fetch() override {
    Csr<T> c(this->a().rows, this->b().cols);
    c.row_ptr.assign(ct_.outerIndexPtr(), ct_.outerIndexPtr() + c.rows + 1);
    c.col_idx.assign(ct_.innerIndexPtr(), ct_.innerIndexPtr() + ct_.nonZeros());
    c.values.assign(ct_.valuePtr(), ct_.valuePtr() + ct_.nonZeros());
    return c;
  }

 private:
  /// The CSR arrays of a matrix, read as the column-major arrays of its transpose.
  static Eigen::Map<const Sparse<T, Eigen::ColMajor>> transposed(const CsrView<T>& m,
                                                                 const Buffer<Index>& row_ptr) {
    return {m.cols, m.rows, row_ptr.back(), row_ptr.data(), m.col_idx, m.values};
  }

  Buffer<Index> a_row_ptr_, b_row_ptr_;
  Sparse<T, Eigen::ColMajor> ct_;
};

}  // namespace

void add_vendor_eigen(Registry& registry) {
  registry.add<EigenSpmv>({.name = "vendor/eigen_spmv", .idea = "Eigen: row-major SparseMatrix * vector"});
  registry.add<EigenSpmm>({.name = "vendor/eigen_spmm", .idea = "Eigen: row-major SparseMatrix * dense"});
  registry.add<EigenSpgemm>(
      {.name = "vendor/eigen_spgemm", .idea = "Eigen: SparseMatrix * SparseMatrix, sorted"});
}

}  // namespace stages
