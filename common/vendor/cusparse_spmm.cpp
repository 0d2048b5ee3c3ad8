// cuSPARSE's SpMM, each of its CSR algorithms an entry, preprocessed. A user would try all of them and keep
// the fastest: they differ by up to ten times from matrix to matrix.

#include "common/vendor/cusparse.hpp"

namespace stages {
namespace {

using namespace cusparse;

template <class T>
class CusparseSpmm : public DeviceSpmmPlan<T> {
 public:
  CusparseSpmm(const SpmmProblem<T>& problem, Exec& exec, cusparseSpMMAlg_t algorithm)
      : DeviceSpmmPlan<T>(problem, exec),
        product_(*problem.a, this->b(), this->c(), problem.alpha, problem.beta, algorithm, this->exec()) {}
  void run() override { product_.run(); }
  static Cost cost(const SpmmProblem<T>& problem) { return cost_with_a(problem); }
  static std::optional<std::string> refuse(const SpmmProblem<T>& problem, Exec&) {
    return refuse_empty(*problem.a);
  }

 private:
  Spmm<T> product_;
};

/// CSR_ALG3 reads rows of B as vectors where the number of columns is a multiple of them, and does not look
/// at the leading dimension: N = 64 with ldb = 65 ended in cudaErrorMisalignedAddress (cuSPARSE of CUDA 13.0
/// on an H200), after which no call of the process works any more. Without padding all of the battery passes,
/// and so do lines of whole vectors.
template <class T>
class CusparseSpmmAlg3 final : public CusparseSpmm<T> {
 public:
  using CusparseSpmm<T>::CusparseSpmm;

  static std::optional<std::string> refuse(const SpmmProblem<T>& problem, Exec& exec) {
    const auto apart = [](Offset ld, Offset line) {
      return ld != line && ld % static_cast<Offset>(16 / sizeof(T)) != 0;
    };
    const auto line = [&](Layout layout, Index rows) {
      return layout == Layout::row_major ? problem.n_cols : rows;
    };
    if (!apart(problem.ldb, line(problem.b_layout, problem.a->cols)) &&
        !apart(problem.ldc, line(problem.c_layout, problem.a->rows))) {
      return CusparseSpmm<T>::refuse(problem, exec);
    }
    return fmt::format(
        "cuSPARSE's CSR_ALG3 reads padded lines beyond their alignment: the leading dimensions of B and C "
        "are {} and {}; it takes multiples of {}, or no padding",
        problem.ldb, problem.ldc, 16 / sizeof(T));
  }
};

}  // namespace

void add_vendor_cusparse_spmm(Registry& registry) {
  const auto info = [](const char* name, const char* algorithm) {
    return library_on_gpu(name, fmt::format("cuSPARSE SpMM, {}, preprocessed", algorithm));
  };
  registry.add<CusparseSpmm>(info("vendor/cusparse_spmm_default", "DEFAULT"), CUSPARSE_SPMM_ALG_DEFAULT);
  registry.add<CusparseSpmm>(info("vendor/cusparse_spmm_alg1", "CSR_ALG1"), CUSPARSE_SPMM_CSR_ALG1);
  registry.add<CusparseSpmm>(info("vendor/cusparse_spmm_alg2", "CSR_ALG2"), CUSPARSE_SPMM_CSR_ALG2);
  registry.add<CusparseSpmmAlg3>(info("vendor/cusparse_spmm_alg3", "CSR_ALG3"), CUSPARSE_SPMM_CSR_ALG3);
}

}  // namespace stages
