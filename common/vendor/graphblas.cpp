// SuiteSparse:GraphBLAS as its experts would call it: one thread, blocking mode (which leaves no work, such
// as a pending sort, behind a call), the predefined PLUS_TIMES semirings with their compiled kernels.
//
// GraphBLAS owns its arrays and keeps 64-bit indices: prepare packs A (and B) once, and load swaps the values
// in place. Vectors and dense matrices are `full`, and y or C is set to beta times itself first and then
// accumulated into (C += A * B), the form for which GraphBLAS updates a full C in place. For SpGEMM a matrix
// may be sparse or hypersparse, as GraphBLAS sees fit, but never a bitmap, so that C is the sorted,
// compressed matrix that the other entries make.

// GraphBLAS.h of this version declares C functions without saying so to C++. What it includes itself comes
// first, outside of the C linkage.
#include <algorithm>
#include <cinttypes>
#include <complex>
#include <cstdbool>
#include <cstddef>
#include <cstdlib>
extern "C" {
#include <GraphBLAS.h>
}

#include <cstring>
#include <limits>

#include "common/matrix/error.hpp"
#include "common/vendor/vendor.hpp"

namespace stages {
namespace {

void check(GrB_Info info, const char* call) {
  if (info == GrB_SUCCESS) return;
  if (info == GrB_OUT_OF_MEMORY) throw std::bad_alloc();
  fail("GraphBLAS: {} returned {}; see GrB_Info in GraphBLAS.h", call, static_cast<int>(info));
}
#define STAGES_GRB(call) check(call, #call)

/// Starts the library, once, and ends it with the program.
class Session {
 public:
  static void require() { static const Session session; }

 private:
  Session() {
    STAGES_GRB(GrB_init(GrB_BLOCKING));
    STAGES_GRB(GxB_Global_Option_set(GxB_GLOBAL_NTHREADS, 1));
    STAGES_GRB(GxB_Global_Option_set(GxB_BURBLE, false));
  }
  ~Session() { GrB_finalize(); }
};

/// What GraphBLAS calls the value type, its operators, and the functions that take a value.
template <class T>
struct Names;
#define STAGES_NAMES(T, NAME)                                                   \
  template <>                                                                   \
  struct Names<T> {                                                             \
    static GrB_Type type() { return GrB_##NAME; }                               \
    static GrB_Semiring plus_times() { return GrB_PLUS_TIMES_SEMIRING_##NAME; } \
    static GrB_BinaryOp plus() { return GrB_PLUS_##NAME; }                      \
    static GrB_BinaryOp times() { return GrB_TIMES_##NAME; }                    \
    static constexpr auto kAssign = GrB_Matrix_assign_##NAME;                   \
    static constexpr auto kApply = GrB_Matrix_apply_BinaryOp1st_##NAME;         \
  };
STAGES_NAMES(float, FP32)
STAGES_NAMES(double, FP64)
#undef STAGES_NAMES

/// An array that GraphBLAS may take over: from malloc, which is what it frees with.
template <class E>
class Handover {
 public:
  explicit Handover(std::size_t count)
      : bytes_(std::max<std::size_t>(count, 1) * sizeof(E)), data_(static_cast<E*>(std::malloc(bytes_))) {
    if (data_ == nullptr) throw std::bad_alloc();
  }
  ~Handover() { std::free(data_); }
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  E* data() { return data_; }
  E** slot() { return &data_; }
  void** untyped_slot() { return reinterpret_cast<void**>(&data_); }
  GrB_Index bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  E* data_;
};

/// An owned GrB_Matrix of value type T.
template <class T>
class Matrix {
 public:
  Matrix(Index rows, Index cols, bool by_row = true) {
    Session::require();
    STAGES_GRB(GrB_Matrix_new(&handle_, Names<T>::type(), static_cast<GrB_Index>(rows),
                              static_cast<GrB_Index>(cols)));
    STAGES_GRB(GxB_Matrix_Option_set(handle_, GxB_FORMAT, by_row ? GxB_BY_ROW : GxB_BY_COL));
  }
  ~Matrix() { GrB_Matrix_free(&handle_); }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  GrB_Matrix get() const { return handle_; }

  void allow(int sparsity) { STAGES_GRB(GxB_Matrix_Option_set(handle_, GxB_SPARSITY_CONTROL, sparsity)); }

  /// Takes the structure of `a` with the given values.
  void pack(const Csr<T>& a, const T* values) {
    const auto nnz = static_cast<std::size_t>(a.nnz());
    Handover<GrB_Index> row_ptr(a.row_ptr.size()), col_idx(nnz);
    Handover<T> x(nnz);
    for (std::size_t i = 0; i < a.row_ptr.size(); ++i)
      row_ptr.data()[i] = static_cast<GrB_Index>(a.row_ptr[i]);
    for (std::size_t k = 0; k < nnz; ++k) col_idx.data()[k] = static_cast<GrB_Index>(a.col_idx[k]);
    if (nnz > 0) std::memcpy(x.data(), values, nnz * sizeof(T));
    STAGES_GRB(GxB_Matrix_pack_CSR(handle_, row_ptr.slot(), col_idx.slot(), x.untyped_slot(), row_ptr.bytes(),
                                   col_idx.bytes(), x.bytes(), false, false, nullptr));
    allow(GxB_SPARSE + GxB_HYPERSPARSE);
  }

  /// Copies the matrix out, sorted, and leaves it as it was.
  Csr<T> copy_out(Index rows, Index cols) {
    GrB_Index *row_ptr = nullptr, *col_idx = nullptr, row_ptr_bytes = 0, col_idx_bytes = 0, x_bytes = 0;
    void* x = nullptr;
    bool iso = false;
    STAGES_GRB(GxB_Matrix_unpack_CSR(handle_, &row_ptr, &col_idx, &x, &row_ptr_bytes, &col_idx_bytes,
                                     &x_bytes, &iso, nullptr, nullptr));
    Csr<T> c(rows, cols);
    const auto nnz = static_cast<std::size_t>(row_ptr[rows]);
    for (std::size_t i = 0; i < c.row_ptr.size(); ++i) c.row_ptr[i] = static_cast<Offset>(row_ptr[i]);
    c.resize(static_cast<Offset>(nnz));
    for (std::size_t k = 0; k < nnz; ++k) c.col_idx[k] = static_cast<Index>(col_idx[k]);
    for (std::size_t k = 0; k < nnz; ++k) c.values[k] = static_cast<const T*>(x)[iso ? 0 : k];
    STAGES_GRB(GxB_Matrix_pack_CSR(handle_, &row_ptr, &col_idx, &x, row_ptr_bytes, col_idx_bytes, x_bytes,
                                   iso, false, nullptr));
    return c;
  }

  /// Takes a dense matrix without padding, in the layout of this matrix.
  void pack_full(DenseView<const T> m) {
    const bool by_row = m.layout == Layout::row_major;
    const auto lines = static_cast<std::size_t>(by_row ? m.rows : m.cols);
    const auto length = static_cast<std::size_t>(by_row ? m.cols : m.rows);
    Handover<T> x(lines * length);
    for (std::size_t i = 0; i < lines && length > 0; ++i)
      std::memcpy(x.data() + i * length, m.data + static_cast<Offset>(i) * m.ld, length * sizeof(T));
    const auto pack_dense = by_row ? GxB_Matrix_pack_FullR : GxB_Matrix_pack_FullC;
    STAGES_GRB(pack_dense(handle_, x.untyped_slot(), x.bytes(), false, nullptr));
  }

  /// Copies a full matrix out, and leaves it as it was.
  void copy_full_out(DenseView<T> m) {
    const bool by_row = m.layout == Layout::row_major;
    void* x = nullptr;
    GrB_Index bytes = 0;
    bool iso = false;
    const auto unpack = by_row ? GxB_Matrix_unpack_FullR : GxB_Matrix_unpack_FullC;
    STAGES_GRB(unpack(handle_, &x, &bytes, &iso, nullptr));
    const Offset length = by_row ? m.cols : m.rows;
    for (Index i = 0; i < m.rows; ++i) {
      for (Index j = 0; j < m.cols; ++j) {
        const Offset at = by_row ? i * length + j : j * length + i;
        m(i, j) = static_cast<const T*>(x)[iso ? 0 : at];
      }
    }
    const auto pack_dense = by_row ? GxB_Matrix_pack_FullR : GxB_Matrix_pack_FullC;
    STAGES_GRB(pack_dense(handle_, &x, bytes, iso, nullptr));
  }

  /// Sets every element to `value`, as a full matrix.
  void fill(T value) {
    STAGES_GRB(Names<T>::kAssign(handle_, nullptr, nullptr, value, GrB_ALL, 0, GrB_ALL, 0, nullptr));
  }

  /// Sets this matrix to factor * m.
  void set_scaled(T factor, const Matrix& m) {
    STAGES_GRB(Names<T>::kApply(handle_, nullptr, nullptr, Names<T>::times(), factor, m.handle_, nullptr));
  }

  /// Adds a * b to this matrix, in place where it is full.
  void accumulate_product(const Matrix& a, const Matrix& b) {
    STAGES_GRB(
        GrB_mxm(handle_, nullptr, Names<T>::plus(), Names<T>::plus_times(), a.handle_, b.handle_, nullptr));
  }

 private:
  GrB_Matrix handle_ = nullptr;
};

/// Bytes of a CSR matrix with 64-bit indices.
double csr64_bytes(double rows, double nnz, std::size_t value_bytes) {
  return 8 * (rows + 1) + static_cast<double>(8 + value_bytes) * nnz;
}

/// A vector is a matrix of one column here: the calls are the same and so are the kernels behind them.
template <class T>
class GraphBlasSpmv final : public SpmvPlan<T> {
 public:
  GraphBlasSpmv(const SpmvProblem<T>& problem, Exec& /*exec*/)
      : problem_(problem), a_(problem.a->rows, problem.a->cols) {
    a_.pack(*problem.a, problem.a->values.data());
    const Index inputs = problem.mode == Mode::chain ? 1 : problem.n_vectors;
    for (Index j = 0; j < inputs; ++j) x_.push_back(std::make_unique<Matrix<T>>(problem.a->cols, 1, false));
    for (Index j = 0; j < problem.n_vectors; ++j)
      y_.push_back(std::make_unique<Matrix<T>>(problem.a->rows, 1, false));
  }

  static Cost cost(const SpmvProblem<T>& problem) {
    return problem_cost(problem).plus_memory(
        csr64_bytes(problem.a->rows, static_cast<double>(problem.a->nnz()), sizeof(T)));
  }

  void load(const SpmvOperands<T>& operands) override {
    for (std::size_t j = 0; j < x_.size(); ++j) x_[j]->pack_full(column(operands.x.view(), j));
  }
  void reset() override {
    for (auto& y : y_) y->fill(std::numeric_limits<T>::quiet_NaN());
  }
  void run() override {
    const bool chain = problem_.mode == Mode::chain;
    for (std::size_t j = 0; j < y_.size(); ++j) {
      y_[j]->fill(T{0});
      y_[j]->accumulate_product(a_, chain ? (j == 0 ? *x_[0] : *y_[j - 1]) : *x_[j]);
    }
  }
  Dense<T> fetch() override {
    Dense<T> y(problem_.a->rows, problem_.n_vectors, Layout::col_major);
    for (std::size_t j = 0; j < y_.size(); ++j) y_[j]->copy_full_out(column(y.view(), j));
    return y;
  }

 private:
  template <class U>
  static DenseView<U> column(DenseView<U> vectors, std::size_t j) {
    return {vectors.rows, 1, vectors.ld, vectors.layout, vectors.data + static_cast<Offset>(j) * vectors.ld};
  }

  SpmvProblem<T> problem_;
  Matrix<T> a_;
  std::vector<std::unique_ptr<Matrix<T>>> x_, y_;
};

template <class T>
class GraphBlasSpmm final : public SpmmPlan<T> {
 public:
  GraphBlasSpmm(const SpmmProblem<T>& problem, Exec& /*exec*/)
      : problem_(problem),
        a_(problem.a->rows, problem.a->cols),
        alpha_a_(problem.a->rows, problem.a->cols),
        b_(problem.a->cols, problem.n_cols, problem.b_layout == Layout::row_major),
        c_(problem.a->rows, problem.n_cols, problem.c_layout == Layout::row_major) {
    a_.pack(*problem.a, problem.a->values.data());
  }

  /// Two copies of A where alpha is not 1; B and C without padding.
  static Cost cost(const SpmmProblem<T>& problem) {
    const double copies = problem.alpha == T{1} ? 1 : 2;
    return problem_cost(problem).plus_memory(
        copies * csr64_bytes(problem.a->rows, static_cast<double>(problem.a->nnz()), sizeof(T)) +
        (static_cast<double>(problem.a->rows) + problem.a->cols) * problem.n_cols * sizeof(T));
  }

  void load(const SpmmOperands<T>& operands) override {
    b_.pack_full(operands.b.view());
    c0_ = &operands.c0;
  }
  void reset() override {
    if (problem_.beta == T{0}) {
      c_.fill(std::numeric_limits<T>::quiet_NaN());
    } else {
      c_.pack_full(c0_->view());
    }
  }
  void run() override {
    if (problem_.beta == T{0}) {
      c_.fill(T{0});
    } else if (problem_.beta != T{1}) {
      c_.set_scaled(problem_.beta, c_);
    }
    if (problem_.alpha == T{1}) {
      c_.accumulate_product(a_, b_);
    } else {
      alpha_a_.set_scaled(problem_.alpha, a_);
      c_.accumulate_product(alpha_a_, b_);
    }
  }
  Dense<T> fetch() override {
    Dense<T> c(problem_.a->rows, problem_.n_cols, problem_.c_layout, problem_.ldc);
    if (problem_.beta == T{0}) {
      poison(c.data);
    } else {
      c.data = c0_->data;  // for the padding, which GraphBLAS's C does not have
    }
    c_.copy_full_out(c.view());
    return c;
  }

 private:
  SpmmProblem<T> problem_;
  Matrix<T> a_, alpha_a_, b_, c_;
  const Dense<T>* c0_ = nullptr;
};

template <class T>
class GraphBlasSpgemm final : public SpgemmPlan<T> {
 public:
  GraphBlasSpgemm(const SpgemmProblem<T>& problem, Exec& /*exec*/)
      : problem_(problem), a_(problem.a->rows, problem.a->cols), b_(problem.b->rows, problem.b->cols) {}

  /// A, B and C with 64-bit column numbers.
  static Cost cost(const SpgemmProblem<T>& problem) {
    return problem_cost(problem).plus_memory(
        csr64_bytes(problem.a->rows, static_cast<double>(problem.a->nnz()), sizeof(T)) +
        csr64_bytes(problem.b->rows, static_cast<double>(problem.b->nnz()), sizeof(T)) +
        sizeof(Index) * static_cast<double>(problem.result_bound));
  }

  void load(const SpgemmOperands<T>& operands) override {
    a_.pack(*problem_.a, operands.a_values.data());
    b_.pack(*problem_.b, operands.b_values.data());
  }
  void reset() override { c_.reset(); }
  void run() override {
    c_ = std::make_unique<Matrix<T>>(problem_.a->rows, problem_.b->cols);
    c_->allow(GxB_SPARSE + GxB_HYPERSPARSE);
    STAGES_GRB(GrB_mxm(c_->get(), nullptr, nullptr, Names<T>::plus_times(), a_.get(), b_.get(), nullptr));
    STAGES_GRB(GrB_Matrix_wait(c_->get(), GrB_MATERIALIZE));
  }
  Csr<T> fetch() override { return c_->copy_out(problem_.a->rows, problem_.b->cols); }

 private:
  SpgemmProblem<T> problem_;
  Matrix<T> a_, b_;
  std::unique_ptr<Matrix<T>> c_;
};

}  // namespace

void add_vendor_graphblas(Registry& registry) {
  registry.add<GraphBlasSpmv>({.name = "vendor/graphblas_spmv", .idea = "GraphBLAS: y += A x, y and x full"});
  registry.add<GraphBlasSpmm>({.name = "vendor/graphblas_spmm", .idea = "GraphBLAS: C += A B, B and C full"});
  registry.add<GraphBlasSpgemm>(
      {.name = "vendor/graphblas_spgemm", .idea = "GraphBLAS: C = A B, sorted CSR"});
}

}  // namespace stages
