// cuBLAS on the dense-stored matrix: what D2's ladder (see stage 06) is measured against. gemv once for A
// stored by columns and once by rows; for a stream of vectors gemm, in full fp32 (no TF32), all vectors as
// one product. Every status is checked: the original report timed a call that had failed.

#include <cublas_v2.h>

#include <source_location>

#include "common/gpu/plans.hpp"
#include "common/matrix/convert.hpp"
#include "common/vendor/vendor.hpp"

namespace stages {
namespace {

void check_cublas(cublasStatus_t status, const char* call,
                  std::source_location where = std::source_location::current()) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string text = fmt::format("{}:{}: {} failed: {} ({})", where.file_name(), where.line(), call,
                                       cublasGetStatusName(status), cublasGetStatusString(status));
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw OutOfMemory(text);
  throw Error(text);
}
#define STAGES_CUBLAS(call) check_cublas((call), #call)

cublasStatus_t gemv(cublasHandle_t h, cublasOperation_t op, int m, int n, const float* a, int lda,
                    const float* x, float* y) {
  const float one = 1, zero = 0;
  return cublasSgemv(h, op, m, n, &one, a, lda, x, 1, &zero, y, 1);
}
cublasStatus_t gemv(cublasHandle_t h, cublasOperation_t op, int m, int n, const double* a, int lda,
                    const double* x, double* y) {
  const double one = 1, zero = 0;
  return cublasDgemv(h, op, m, n, &one, a, lda, x, 1, &zero, y, 1);
}
cublasStatus_t gemm(cublasHandle_t h, int m, int n, int k, const float* a, const float* b, float* c) {
  const float one = 1, zero = 0;
  return cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, a, m, b, k, &zero, c, m);
}
cublasStatus_t gemm(cublasHandle_t h, int m, int n, int k, const double* a, const double* b, double* c) {
  const double one = 1, zero = 0;
  return cublasDgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, a, m, b, k, &zero, c, m);
}

/// The matrix dense on the device, and cuBLAS on the plan's stream.
template <class T>
class CublasPlan : public DeviceSpmvPlan<T> {
 public:
  CublasPlan(const SpmvProblem<T>& problem, Exec& exec, Layout layout)
      : DeviceSpmvPlan<T>(problem, exec), a_(std::span<const T>(to_dense(*problem.a, layout).data)) {
    cublasHandle_t handle = nullptr;
    STAGES_CUBLAS(cublasCreate(&handle));
    handle_.reset(handle);
    STAGES_CUBLAS(cublasSetStream(handle, this->stream()));
    STAGES_CUBLAS(cublasSetMathMode(handle, CUBLAS_PEDANTIC_MATH));
    // A workspace of its own lets the calls be captured in a graph.
    STAGES_CUBLAS(cublasSetWorkspace(handle, workspace_.data(), workspace_.size()));
  }
  static Cost cost(const SpmvProblem<T>& problem) {
    Cost cost = problem_cost(problem);
    const double elements = static_cast<double>(problem.a->rows) * problem.a->cols;
    cost.model_bytes = problem.products * sizeof(T) * (elements + problem.a->rows + problem.a->cols);
    cost.memory += sizeof(T) * elements + kWorkspaceBytes;
    cost.work = elements * problem.products;
    return cost;
  }

 protected:
  static std::optional<std::string> refuse_empty(const SpmvProblem<T>& problem) {
    if (problem.a->rows > 0 && problem.a->cols > 0) return std::nullopt;
    return fmt::format("cuBLAS takes no empty matrix, and this one is {} x {}", problem.a->rows,
                       problem.a->cols);
  }
  cublasHandle_t handle() const { return handle_.get(); }
  const T* dense() const { return a_.data(); }

 private:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // what NVIDIA advises for Hopper
  struct HandleDelete {
    void operator()(cublasContext* handle) const { cublasDestroy(handle); }
  };
  DeviceArray<T> a_;
  DeviceArray<unsigned char> workspace_{kWorkspaceBytes};
  std::unique_ptr<cublasContext, HandleDelete> handle_;
};

/// By columns: gemv as it is. By rows: gemv of the transpose.
template <class T>
class CublasGemv final : public CublasPlan<T> {
 public:
  CublasGemv(const SpmvProblem<T>& problem, Exec& exec, Layout layout)
      : CublasPlan<T>(problem, exec, layout), layout_(layout) {}
  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec&) {
    return CublasPlan<T>::refuse_empty(problem);
  }

 private:
  void product(const T* x, T* y) override {
    const Index m = this->a().rows, n = this->a().cols;
    if (layout_ == Layout::col_major) {
      STAGES_CUBLAS(gemv(this->handle(), CUBLAS_OP_N, m, n, this->dense(), m, x, y));
    } else {
      STAGES_CUBLAS(gemv(this->handle(), CUBLAS_OP_T, n, m, this->dense(), n, x, y));
    }
  }
  Layout layout_;
};

template <class T>
class CublasStreamAsGemm final : public CublasPlan<T> {
 public:
  CublasStreamAsGemm(const SpmvProblem<T>& problem, Exec& exec)
      : CublasPlan<T>(problem, exec, Layout::col_major) {}
  void run() override {
    STAGES_CUBLAS(gemm(this->handle(), this->a().rows, this->problem().products, this->a().cols,
                       this->dense(), this->x_of(0), this->y_of(0)));
  }
  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec&) {
    if (problem.mode != Mode::stream)
      return fmt::format("takes all vectors of a stream at once, and this problem is {} of {}",
                         to_string(problem.mode), problem.products);
    return CublasPlan<T>::refuse_empty(problem);
  }

 private:
  void product(const T*, T*) override {}  // run() does them all
};

}  // namespace

void add_vendor_cublas(Registry& registry) {
  registry.add<CublasGemv>({.name = "vendor/cublas_gemv_columns",
                            .idea = "cuBLAS gemv on the dense matrix stored by columns",
                            .claims = {.bitwise_reproducible = false},
                            .needs = {.gpu = true}},
                           Layout::col_major);
  registry.add<CublasGemv>({.name = "vendor/cublas_gemv_rows",
                            .idea = "cuBLAS gemv on the dense matrix stored by rows",
                            .claims = {.bitwise_reproducible = false},
                            .needs = {.gpu = true}},
                           Layout::row_major);
  registry.add<CublasStreamAsGemm>(
      {.name = "vendor/cublas_stream_gemm",
       .idea = "cuBLAS gemm (fp32, no TF32): all vectors of a stream as one product",
       .claims = {.bitwise_reproducible = false},
       .needs = {.gpu = true}});
}

}  // namespace stages
