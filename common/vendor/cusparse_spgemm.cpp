// cuSPARSE's SpGEMM: estimate, (for ALG2 and ALG3: ask how much memory,) compute, copy. The whole of it is
// run(), buffers included, as a user pays for it. The caller brings the buffers and C, and each algorithm is
// here twice: once these come from cudaMalloc, which waits for the device, once from a pool as step 8's do. An
// algorithm that runs out of memory hands over to ALG3 in ever smaller chunks, and the note says so.

#include <array>

#include "common/gpu/pool.hpp"
#include "common/vendor/cusparse.hpp"

namespace stages {
namespace {

using namespace cusparse;

/// An attempt: ALG2 and ALG3 take the share of the products that they hold at once.
struct Attempt {
  cusparseSpGEMMAlg_t algorithm;
  float chunk;
};

/// Where buffers and C come from: cudaMalloc in each run.
struct Allocated {
  template <class U>
  using Array = DeviceArray<U>;
  template <class U>
  Array<U> take(std::size_t size, cudaStream_t) {
    return Array<U>(size);
  }
  void trim() {}
};

/// A pool, which keeps what it held in earlier runs.
struct Pooled {
  template <class U>
  using Array = PooledArray<U>;
  template <class U>
  Array<U> take(std::size_t size, cudaStream_t stream) {
    return Array<U>(pool, size, stream);
  }
  void trim() { pool.trim(); }
  MemoryPool pool;
};

template <class T, class Memory>
class CusparseSpgemm final : public DeviceSpgemmPlan<T> {
 public:
  CusparseSpgemm(const SpgemmProblem<T>& problem, Exec& exec, cusparseSpGEMMAlg_t algorithm)
      : DeviceSpgemmPlan<T>(problem, exec),
        first_{algorithm, 0.2F},
        handle_(this->stream()),
        a_(std::visit([](const auto& a) { return describe(a); }, this->a())),
        b_(std::visit([](const auto& b) { return describe(b); }, this->b())) {}

  void reset() override { c_ = {}; }
  void run() override {
    c_ = {};
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
        this->exec().synchronize();
        memory_.trim();
        note_ = fmt::format("ran out of memory, fell back to ALG3 in chunks of {:.0f} %",
                            100 * attempts[k + 1].chunk);
      }
    }
  }
  std::string note() const override { return note_; }

  Csr<T> fetch() override {
    return csr_to_host<T>(c_, this->problem().a->rows, this->problem().b->cols, this->exec());
  }

  static Cost cost(const SpgemmProblem<T>& problem) {
    return problem_cost(problem).plus_memory(device_csr_bytes(*problem.a) + device_csr_bytes(*problem.b));
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

  template <class U>
  using Array = typename Memory::template Array<U>;

  struct Result {
    Array<std::int32_t> row_ptr;
    Array<Index> col_idx;
    Array<T> values;
  };

  template <class U>
  Array<U> take(std::int64_t size) {
    return memory_.template take<U>(static_cast<std::size_t>(size), this->stream());
  }
  /// At least one byte, since cuSPARSE wants a pointer even for none.
  Array<unsigned char> buffer(std::size_t bytes) {
    return take<unsigned char>(static_cast<std::int64_t>(std::max<std::size_t>(bytes, 1)));
  }

  void multiply(const Attempt& attempt) {
    cusparseSpGEMMDescr_t raw = nullptr;
    STAGES_CUSPARSE(cusparseSpGEMM_createDescr(&raw));
    const std::unique_ptr<cusparseSpGEMMDescr, DescriptorDelete> work(raw);
    const Index c_rows = this->problem().a->rows, c_cols = this->problem().b->cols;
    Result c;
    c.row_ptr = take<std::int32_t>(std::int64_t{c_rows} + 1);
    cusparseSpMatDescr_t raw_c = nullptr;
    STAGES_CUSPARSE(cusparseCreateCsr(&raw_c, c_rows, c_cols, 0, c.row_ptr.data(), nullptr, nullptr,
                                      CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                                      kType<T>));
    const SpMat c_matrix(raw_c);
    const auto alg = attempt.algorithm;
    // What all calls take, then what this one does.
    const auto step = [&](auto* function, auto... more) {
      return function(handle_, kPlain, kPlain, &one_, a_.get(), b_.get(), &zero_, c_matrix.get(), kType<T>,
                      alg, raw, more...);
    };

    std::size_t bytes1 = 0, bytes2 = 0;
    STAGES_CUSPARSE(step(cusparseSpGEMM_workEstimation, &bytes1, nullptr));
    auto buffer1 = buffer(bytes1);
    STAGES_CUSPARSE(step(cusparseSpGEMM_workEstimation, &bytes1, buffer1.data()));
    if (alg == CUSPARSE_SPGEMM_ALG2 || alg == CUSPARSE_SPGEMM_ALG3) {
      std::size_t bytes3 = 0;
      STAGES_CUSPARSE(step(cusparseSpGEMM_estimateMemory, attempt.chunk, &bytes3, nullptr, nullptr));
      auto buffer3 = buffer(bytes3);
      STAGES_CUSPARSE(step(cusparseSpGEMM_estimateMemory, attempt.chunk, &bytes3, buffer3.data(), &bytes2));
    } else {
      STAGES_CUSPARSE(step(cusparseSpGEMM_compute, &bytes2, nullptr));
    }
    auto buffer2 = buffer(bytes2);
    STAGES_CUSPARSE(step(cusparseSpGEMM_compute, &bytes2, buffer2.data()));
    std::int64_t rows = 0, cols = 0, nnz = 0;
    STAGES_CUSPARSE(cusparseSpMatGetSize(c_matrix.get(), &rows, &cols, &nnz));
    c.col_idx = take<Index>(nnz);
    c.values = take<T>(nnz);
    STAGES_CUSPARSE(
        cusparseCsrSetPointers(c_matrix.get(), c.row_ptr.data(), c.col_idx.data(), c.values.data()));
    STAGES_CUSPARSE(step(cusparseSpGEMM_copy));
    c_ = std::move(c);
  }

  const T one_ = 1, zero_ = 0;
  Attempt first_;
  Handle handle_;
  SpMat a_, b_;
  Memory memory_;
  Result c_;
  std::string note_;
};

template <class T>
using AllocatedSpgemm = CusparseSpgemm<T, Allocated>;
template <class T>
using PooledSpgemm = CusparseSpgemm<T, Pooled>;

}  // namespace

void add_vendor_cusparse_spgemm(Registry& registry) {
  const auto add = [&](const std::string& name, const char* algorithm_name, cusparseSpGEMMAlg_t algorithm) {
    const EntryInfo allocated = library_on_gpu(name, fmt::format("cuSPARSE SpGEMM, {}", algorithm_name));
    EntryInfo pooled = allocated;
    pooled.name += "_pooled";
    pooled.idea += ", its buffers and C from a pool, as step 8's";
    registry.add<AllocatedSpgemm>(allocated, algorithm);
    registry.add<PooledSpgemm>(pooled, algorithm);
  };
  add("vendor/cusparse_spgemm_default", "DEFAULT", CUSPARSE_SPGEMM_DEFAULT);
  add("vendor/cusparse_spgemm_alg1", "ALG1", CUSPARSE_SPGEMM_ALG1);
  add("vendor/cusparse_spgemm_alg2", "ALG2", CUSPARSE_SPGEMM_ALG2);
  add("vendor/cusparse_spgemm_alg3", "ALG3", CUSPARSE_SPGEMM_ALG3);
}

}  // namespace stages
