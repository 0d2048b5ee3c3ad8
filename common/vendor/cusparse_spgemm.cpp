// cuSPARSE's SpGEMM: estimate, (for ALG2 and ALG3: ask how much memory,) compute, copy. The whole of it is
// run(), buffers included, as a user pays for it. An algorithm that runs out of memory hands over to ALG3 in
// ever smaller chunks, and the note says so.

#include <array>

#include "common/vendor/cusparse.hpp"
#include "common/vendor/vendor.hpp"

namespace stages {
namespace {

using namespace cusparse;

/// An attempt: ALG2 and ALG3 take the share of the products that they hold at once.
struct Attempt {
  cusparseSpGEMMAlg_t algorithm;
  float chunk;
};

template <class T>
class CusparseSpgemm final : public DeviceSpgemmPlan<T> {
 public:
  CusparseSpgemm(const SpgemmProblem<T>& problem, Exec& exec, cusparseSpGEMMAlg_t algorithm)
      : DeviceSpgemmPlan<T>(problem, exec),
        first_{algorithm, 0.2F},
        handle_(this->stream()),
        a_(std::visit([](const auto& a) { return describe(a); }, this->a())),
        b_(std::visit([](const auto& b) { return describe(b); }, this->b())) {}

  void run() override {
    note_.clear();
    const std::array attempts = {first_, Attempt{CUSPARSE_SPGEMM_ALG3, 0.1F},
                                 Attempt{CUSPARSE_SPGEMM_ALG3, 0.02F}};
    for (std::size_t k = 0; k < attempts.size(); ++k) {
      try {
        multiply(attempts[k]);
        return;
      } catch (const OutOfMemory&) {
        if (k + 1 == attempts.size()) throw;
        static_cast<void>(cudaGetLastError());
        note_ = fmt::format("ran out of memory, fell back to ALG3 in chunks of {:.0f} %",
                            100 * attempts[k + 1].chunk);
      }
    }
  }
  std::string note() const override { return note_; }

  static Cost cost(const SpgemmProblem<T>& problem) {
    Cost cost = problem_cost(problem);
    cost.memory += device_csr_bytes(*problem.a) + device_csr_bytes(*problem.b);
    return cost;
  }
  static std::optional<std::string> refuse(const SpgemmProblem<T>& problem, Exec&) {
    if (auto reason = refuse_empty(*problem.a)) return reason;
    if (auto reason = refuse_empty(*problem.b)) return reason;
    const Offset largest = std::max(problem.a->nnz(), problem.b->nnz());
    if (std::in_range<std::int32_t>(largest)) return std::nullopt;
    return fmt::format("cuSPARSE SpGEMM counts in 32 bits, and a factor has {} non-zeros", largest);
  }

 private:
  struct DescriptorDelete {
    void operator()(cusparseSpGEMMDescr* d) const { cusparseSpGEMM_destroyDescr(d); }
  };

  void multiply(const Attempt& attempt) {
    constexpr auto kN = CUSPARSE_OPERATION_NON_TRANSPOSE;
    cusparseSpGEMMDescr_t raw = nullptr;
    STAGES_CUSPARSE(cusparseSpGEMM_createDescr(&raw));
    const std::unique_ptr<cusparseSpGEMMDescr, DescriptorDelete> work(raw);
    DeviceCsr<T, std::int32_t> c;
    c.rows = this->problem().a->rows;
    c.cols = this->problem().b->cols;
    c.row_ptr = DeviceArray<std::int32_t>(static_cast<std::size_t>(c.rows) + 1);
    const SpMat c_matrix = describe(c);
    const auto alg = attempt.algorithm;

    std::size_t bytes1 = 0, bytes2 = 0;
    STAGES_CUSPARSE(cusparseSpGEMM_workEstimation(handle_, kN, kN, &one_, a_.get(), b_.get(), &zero_,
                                                  c_matrix.get(), kType<T>, alg, raw, &bytes1, nullptr));
    auto buffer1 = scratch(bytes1);
    STAGES_CUSPARSE(cusparseSpGEMM_workEstimation(handle_, kN, kN, &one_, a_.get(), b_.get(), &zero_,
                                                  c_matrix.get(), kType<T>, alg, raw, &bytes1,
                                                  buffer1.data()));
    if (alg == CUSPARSE_SPGEMM_ALG2 || alg == CUSPARSE_SPGEMM_ALG3) {
      std::size_t bytes3 = 0;
      STAGES_CUSPARSE(cusparseSpGEMM_estimateMemory(handle_, kN, kN, &one_, a_.get(), b_.get(), &zero_,
                                                    c_matrix.get(), kType<T>, alg, raw, attempt.chunk,
                                                    &bytes3, nullptr, nullptr));
      auto buffer3 = scratch(bytes3);
      STAGES_CUSPARSE(cusparseSpGEMM_estimateMemory(handle_, kN, kN, &one_, a_.get(), b_.get(), &zero_,
                                                    c_matrix.get(), kType<T>, alg, raw, attempt.chunk,
                                                    &bytes3, buffer3.data(), &bytes2));
    } else {
      STAGES_CUSPARSE(cusparseSpGEMM_compute(handle_, kN, kN, &one_, a_.get(), b_.get(), &zero_,
                                             c_matrix.get(), kType<T>, alg, raw, &bytes2, nullptr));
    }
    auto buffer2 = scratch(bytes2);
    STAGES_CUSPARSE(cusparseSpGEMM_compute(handle_, kN, kN, &one_, a_.get(), b_.get(), &zero_, c_matrix.get(),
                                           kType<T>, alg, raw, &bytes2, buffer2.data()));
    std::int64_t rows = 0, cols = 0, nnz = 0;
    STAGES_CUSPARSE(cusparseSpMatGetSize(c_matrix.get(), &rows, &cols, &nnz));
    c.col_idx = DeviceArray<Index>(static_cast<std::size_t>(nnz));
    c.values = DeviceArray<T>(static_cast<std::size_t>(nnz));
    STAGES_CUSPARSE(
        cusparseCsrSetPointers(c_matrix.get(), c.row_ptr.data(), c.col_idx.data(), c.values.data()));
    STAGES_CUSPARSE(cusparseSpGEMM_copy(handle_, kN, kN, &one_, a_.get(), b_.get(), &zero_, c_matrix.get(),
                                        kType<T>, alg, raw));
    this->c_ = std::move(c);
  }

  const T one_ = 1;
  const T zero_ = 0;
  Attempt first_;
  Handle handle_;
  SpMat a_;
  SpMat b_;
  std::string note_;
};

}  // namespace

void add_vendor_cusparse_spgemm(Registry& registry) {
  const auto add = [&](const char* name, const char* algorithm_name, cusparseSpGEMMAlg_t algorithm) {
    registry.add<CusparseSpgemm>({.name = name,
                                  .idea = fmt::format("cuSPARSE SpGEMM, {}", algorithm_name),
                                  .claims = {.bitwise_reproducible = false},
                                  .needs = {.gpu = true}},
                                 algorithm);
  };
  add("vendor/cusparse_spgemm_default", "DEFAULT", CUSPARSE_SPGEMM_DEFAULT);
  add("vendor/cusparse_spgemm_alg1", "ALG1", CUSPARSE_SPGEMM_ALG1);
  add("vendor/cusparse_spgemm_alg2", "ALG2", CUSPARSE_SPGEMM_ALG2);
  add("vendor/cusparse_spgemm_alg3", "ALG3", CUSPARSE_SPGEMM_ALG3);
}

}  // namespace stages
