// cuSPARSE's SpMM, each of its CSR algorithms an entry, preprocessed. A user would try all of them and keep
// the fastest: they differ by up to ten times from matrix to matrix.

#include "common/vendor/cusparse.hpp"
#include "common/vendor/vendor.hpp"

namespace stages {
namespace {

using namespace cusparse;

template <class T>
class CusparseSpmm final : public DeviceSpmmPlan<T> {
 public:
  CusparseSpmm(const SpmmProblem<T>& problem, Exec& exec, cusparseSpMMAlg_t algorithm)
      : DeviceSpmmPlan<T>(problem, exec),
        alpha_(problem.alpha),
        beta_(problem.beta),
        algorithm_(algorithm),
        handle_(this->stream()),
        a_(to_device(*problem.a)),
        matrix_(std::visit([](const auto& a) { return describe(a); }, a_)),
        b_(describe(this->b())),
        c_(describe(this->c())) {
    std::size_t bytes = 0;
    STAGES_CUSPARSE(cusparseSpMM_bufferSize(handle_, CUSPARSE_OPERATION_NON_TRANSPOSE,
                                            CUSPARSE_OPERATION_NON_TRANSPOSE, &alpha_, matrix_.get(),
                                            b_.get(), &beta_, c_.get(), kType<T>, algorithm_, &bytes));
    buffer_ = scratch(bytes);
    STAGES_CUSPARSE(cusparseSpMM_preprocess(
        handle_, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &alpha_, matrix_.get(),
        b_.get(), &beta_, c_.get(), kType<T>, algorithm_, buffer_.data()));
    this->exec().synchronize();
  }
  void run() override {
    STAGES_CUSPARSE(cusparseSpMM(handle_, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE,
                                 &alpha_, matrix_.get(), b_.get(), &beta_, c_.get(), kType<T>, algorithm_,
                                 buffer_.data()));
  }
  static Cost cost(const SpmmProblem<T>& problem) {
    Cost cost = problem_cost(problem);
    cost.memory += device_csr_bytes(*problem.a);
    return cost;
  }
  static std::optional<std::string> refuse(const SpmmProblem<T>& problem, Exec&) {
    return refuse_empty(*problem.a);
  }

 private:
  T alpha_;
  T beta_;
  cusparseSpMMAlg_t algorithm_;
  Handle handle_;
  AnyDeviceCsr<T> a_;
  SpMat matrix_;
  DnMat b_;
  DnMat c_;
  DeviceArray<unsigned char> buffer_;
};

}  // namespace

void add_vendor_cusparse_spmm(Registry& registry) {
  const auto add = [&](const char* name, const char* algorithm_name, cusparseSpMMAlg_t algorithm) {
    registry.add<CusparseSpmm>({.name = name,
                                .idea = fmt::format("cuSPARSE SpMM, {}, preprocessed", algorithm_name),
                                .claims = {.bitwise_reproducible = false},
                                .needs = {.gpu = true}},
                               algorithm);
  };
  add("vendor/cusparse_spmm_default", "DEFAULT", CUSPARSE_SPMM_ALG_DEFAULT);
  add("vendor/cusparse_spmm_alg1", "CSR_ALG1", CUSPARSE_SPMM_CSR_ALG1);
  add("vendor/cusparse_spmm_alg2", "CSR_ALG2", CUSPARSE_SPMM_CSR_ALG2);
  add("vendor/cusparse_spmm_alg3", "CSR_ALG3", CUSPARSE_SPMM_CSR_ALG3);
}

}  // namespace stages
