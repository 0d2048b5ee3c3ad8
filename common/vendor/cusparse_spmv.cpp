// cuSPARSE's SpMV as its guide says to use it: descriptors and buffers made once, cusparseSpMV_preprocess
// before the first product. Two algorithms on CSR, one on sliced ELL (slices of 32 rows, padded to the
// longest row of the slice). For a stream of vectors also its SpMM, which multiplies all of them as one dense
// matrix.

#include <optional>

#include "common/vendor/cusparse.hpp"

namespace stages {
namespace {

using namespace cusparse;

/// One cusparseSpMV a product, on any sparse descriptor.
template <class T>
class SpmvPlanOn : public DeviceSpmvPlan<T> {
 public:
  SpmvPlanOn(const SpmvProblem<T>& problem, Exec& exec, cusparseSpMVAlg_t algorithm)
      : DeviceSpmvPlan<T>(problem, exec),
        algorithm_(algorithm),
        handle_(this->stream()),
        x_(describe(this->x_of(0), problem.a->cols)),
        y_(describe(this->y_of(0), problem.a->rows)) {}

 protected:
  /// Buffers and preprocessing, once `matrix` stands.
  void prepare(SpMat matrix) {
    matrix_ = std::move(matrix);
    std::size_t bytes = 0;
    STAGES_CUSPARSE(cusparseSpMV_bufferSize(handle_, kPlain, &one_, matrix_.get(), x_.get(), &zero_, y_.get(),
                                            kType<T>, algorithm_, &bytes));
    buffer_ = scratch(bytes);
    STAGES_CUSPARSE(cusparseSpMV_preprocess(handle_, kPlain, &one_, matrix_.get(), x_.get(), &zero_, y_.get(),
                                            kType<T>, algorithm_, buffer_.data()));
    this->exec().synchronize();
  }
  void product(const T* x, T* y) override {
    STAGES_CUSPARSE(cusparseDnVecSetValues(x_.get(), const_cast<T*>(x)));
    STAGES_CUSPARSE(cusparseDnVecSetValues(y_.get(), y));
    STAGES_CUSPARSE(cusparseSpMV(handle_, kPlain, &one_, matrix_.get(), x_.get(), &zero_, y_.get(), kType<T>,
                                 algorithm_, buffer_.data()));
  }

 private:
  const T one_ = 1, zero_ = 0;
  cusparseSpMVAlg_t algorithm_;
  Handle handle_;
  DnVec x_, y_;
  SpMat matrix_;
  DeviceArray<unsigned char> buffer_;
};

template <class T>
class CusparseCsrSpmv final : public SpmvPlanOn<T> {
 public:
  CusparseCsrSpmv(const SpmvProblem<T>& problem, Exec& exec, cusparseSpMVAlg_t algorithm)
      : SpmvPlanOn<T>(problem, exec, algorithm), a_(to_device(*problem.a)) {
    std::visit([&](const auto& a) { this->prepare(describe(a)); }, a_);
  }
  static Cost cost(const SpmvProblem<T>& problem) { return cost_with_a(problem); }
  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec&) {
    return refuse_empty(*problem.a);
  }

 private:
  AnyDeviceCsr<T> a_;
};

constexpr Index kSlice = 32;    ///< rows a slice: one warp
constexpr Index kPadding = -1;  ///< cuSPARSE's mark for it

/// The longest row of the slice that begins with row `first`.
template <class T>
Offset longest_in_slice(const Csr<T>& a, Index first) {
  Offset longest = 0;
  for (Index i = first; i < std::min<Offset>(a.rows, Offset{first} + kSlice); ++i)
    longest = std::max(longest, a.row_nnz(i));
  return longest;
}

/// Elements of a matrix in sliced ELL, padding included.
template <class T>
Offset sliced_size(const Csr<T>& a) {
  Offset size = 0;
  for (Index first = 0; first < a.rows; first += kSlice) size += longest_in_slice(a, first) * kSlice;
  return size;
}

template <class T>
class CusparseSellSpmv final : public SpmvPlanOn<T> {
 public:
  CusparseSellSpmv(const SpmvProblem<T>& problem, Exec& exec, cusparseSpMVAlg_t algorithm)
      : SpmvPlanOn<T>(problem, exec, algorithm) {
    const Csr<T>& a = *problem.a;
    std::vector<std::int32_t> offsets{0};  // cuSPARSE takes no 64-bit offsets here
    std::vector<Index> columns;
    std::vector<T> values;
    for (Index first = 0; first < a.rows; first += kSlice) {
      const auto begin = static_cast<std::size_t>(offsets.back());
      const auto rows = static_cast<Index>(std::min<Offset>(kSlice, Offset{a.rows} - first));
      columns.resize(begin + static_cast<std::size_t>(longest_in_slice(a, first) * kSlice), kPadding);
      values.resize(columns.size(), T{0});
      for (Index r = 0; r < rows; ++r) {
        const auto row_columns_of = row_columns(a, first + r);
        const auto row_values_of = row_values(a, first + r);
        for (std::size_t k = 0; k < row_columns_of.size(); ++k) {
          columns[begin + k * kSlice + static_cast<std::size_t>(r)] = row_columns_of[k];
          values[begin + k * kSlice + static_cast<std::size_t>(r)] = row_values_of[k];
        }
      }
      offsets.push_back(narrow<std::int32_t>(std::ssize(columns), "the size of the sliced ELL"));
    }
    offsets_ = DeviceArray<std::int32_t>(std::span<const std::int32_t>(offsets));
    columns_ = DeviceArray<Index>(columns);
    values_ = DeviceArray<T>(values);
    cusparseSpMatDescr_t matrix = nullptr;
    STAGES_CUSPARSE(cusparseCreateSlicedEll(
        &matrix, a.rows, a.cols, a.nnz(), std::ssize(values), kSlice, offsets_.data(), columns_.data(),
        values_.data(), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, kType<T>));
    this->prepare(SpMat(matrix));
  }
  static Cost cost(const SpmvProblem<T>& problem) {
    const auto size = static_cast<double>(sliced_size(*problem.a));
    return problem_cost(problem)
        .with_work(size * problem.n_vectors)
        .plus_memory((sizeof(Index) + sizeof(T)) * size);
  }
  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec&) {
    if (auto reason = refuse_empty(*problem.a)) return reason;
    const Offset size = sliced_size(*problem.a);
    if (size <= 10 * problem.a->nnz() && std::in_range<std::int32_t>(size)) return std::nullopt;
    return fmt::format("sliced ELL would pad {} non-zeros to {}", problem.a->nnz(), size);
  }

 private:
  DeviceArray<std::int32_t> offsets_;
  DeviceArray<Index> columns_;
  DeviceArray<T> values_;
};

/// All vectors of a stream as one product of CSR and a dense matrix.
template <class T>
class CusparseStreamAsSpmm final : public DeviceSpmvPlan<T> {
 public:
  CusparseStreamAsSpmm(const SpmvProblem<T>& problem, Exec& exec)
      : DeviceSpmvPlan<T>(problem, exec),
        product_(*problem.a, side_by_side(this->x_of(0), problem.a->cols),
                 side_by_side(this->y_of(0), problem.a->rows), 1, 0, CUSPARSE_SPMM_ALG_DEFAULT,
                 this->exec()) {}
  void run() override { product_.run(); }
  static Cost cost(const SpmvProblem<T>& problem) { return cost_with_a(problem); }
  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec&) {
    if (auto reason = refuse_but_streams(problem)) return reason;
    return refuse_empty(*problem.a);
  }

 private:
  void product(const T*, T*) override {}  // run() does them all
  template <class U>
  DenseView<U> side_by_side(U* vectors, Index length) const {
    return {length, this->problem().n_vectors, length, Layout::col_major, vectors};
  }
  Spmm<T> product_;
};

}  // namespace

void add_vendor_cusparse_spmv(Registry& registry) {
  registry.add<CusparseCsrSpmv>(
      library_on_gpu("vendor/cusparse_spmv_alg1", "cuSPARSE SpMV, CSR_ALG1, preprocessed"),
      CUSPARSE_SPMV_CSR_ALG1);
  registry.add<CusparseCsrSpmv>({.name = "vendor/cusparse_spmv_alg2",
                                 .idea = "cuSPARSE SpMV, CSR_ALG2 (the same bits each run), preprocessed"},
                                CUSPARSE_SPMV_CSR_ALG2);
  registry.add<CusparseSellSpmv>(
      library_on_gpu("vendor/cusparse_spmv_sell", "cuSPARSE SpMV on sliced ELL, slices of 32 rows"),
      CUSPARSE_SPMV_SELL_ALG1);
  registry.add<CusparseStreamAsSpmm>(library_on_gpu(
      "vendor/cusparse_stream_spmm", "cuSPARSE SpMM: all vectors of a stream as one dense matrix"));
}

}  // namespace stages
