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
  if (status != CUBLAS_STATUS_SUCCESS)
    library_failed(call, cublasGetStatusName(status), cublasGetStatusString(status),
                   status == CUBLAS_STATUS_ALLOC_FAILED, where);
}
#define STAGES_CUBLAS(call) check_cublas((call), #call)

/// The function for T of two.
template <class T, class Single, class Double>
constexpr auto of_type(Single* single, Double* twice) {
  if constexpr (std::is_same_v<T, float>) {
    return single;
  } else {
    return twice;
  }
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
    cost.model_bytes = problem.n_vectors * sizeof(T) * (elements + problem.a->rows + problem.a->cols);
    cost.memory += sizeof(T) * elements + kWorkspaceBytes;
    cost.work = elements * problem.n_vectors;
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
  static constexpr T kOne = 1, kZero = 0;

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
    const bool by_columns = layout_ == Layout::col_major;
    const Index rows = this->a().rows, cols = this->a().cols;
    const Index m = by_columns ? rows : cols, n = by_columns ? cols : rows;
    constexpr auto kGemv = of_type<T>(cublasSgemv, cublasDgemv);
    STAGES_CUBLAS(kGemv(this->handle(), by_columns ? CUBLAS_OP_N : CUBLAS_OP_T, m, n, &this->kOne,
                        this->dense(), m, x, 1, &this->kZero, y, 1));
  }
  Layout layout_;
};

template <class T>
class CublasStreamAsGemm final : public CublasPlan<T> {
 public:
  CublasStreamAsGemm(const SpmvProblem<T>& problem, Exec& exec)
      : CublasPlan<T>(problem, exec, Layout::col_major) {}
  void run() override {
    const Index m = this->a().rows, k = this->a().cols;
    constexpr auto kGemm = of_type<T>(cublasSgemm, cublasDgemm);
    STAGES_CUBLAS(kGemm(this->handle(), CUBLAS_OP_N, CUBLAS_OP_N, m, this->problem().n_vectors, k,
                        &this->kOne, this->dense(), m, this->x_of(0), k, &this->kZero, this->y_of(0), m));
  }
  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec&) {
    if (auto reason = refuse_but_streams(problem)) return reason;
    return CublasPlan<T>::refuse_empty(problem);
  }

 private:
  void product(const T*, T*) override {}  // run() does them all
};

}  // namespace

void add_vendor_cublas(Registry& registry) {
  registry.add<CublasGemv>(
      library_on_gpu("vendor/cublas_gemv_columns", "cuBLAS gemv on the dense matrix stored by columns"),
      Layout::col_major);
  registry.add<CublasGemv>(
      library_on_gpu("vendor/cublas_gemv_rows", "cuBLAS gemv on the dense matrix stored by rows"),
      Layout::row_major);
  registry.add<CublasStreamAsGemm>(library_on_gpu(
      "vendor/cublas_stream_gemm", "cuBLAS gemm (fp32, no TF32): all vectors of a stream as one product"));
}

}  // namespace stages
