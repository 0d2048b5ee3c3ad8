#pragma once
// What the cuSPARSE entries share: checked calls, the handle, and owning descriptors.

#include <cusparse.h>

#include <memory>
#include <source_location>
#include <type_traits>

#include "common/gpu/plans.hpp"
#include "common/vendor/vendor.hpp"

namespace stages::cusparse {

inline void check(cusparseStatus_t status, const char* call,
                  std::source_location where = std::source_location::current()) {
  if (status != CUSPARSE_STATUS_SUCCESS)
    library_failed(call, cusparseGetErrorName(status), cusparseGetErrorString(status),
                   status == CUSPARSE_STATUS_ALLOC_FAILED || status == CUSPARSE_STATUS_INSUFFICIENT_RESOURCES,
                   where);
}

#define STAGES_CUSPARSE(call) ::stages::cusparse::check((call), #call)

/// Bytes of scratch memory, at least one, since cuSPARSE wants a pointer even for none.
inline DeviceArray<unsigned char> scratch(std::size_t bytes) {
  return DeviceArray<unsigned char>(std::max<std::size_t>(bytes, 1));
}

template <auto Destroy>
struct Deleter {
  template <class T>
  void operator()(T* descriptor) const {
    Destroy(descriptor);
  }
};
template <class Descriptor, auto Destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Descriptor>, Deleter<Destroy>>;

using SpMat = Owned<cusparseSpMatDescr_t, cusparseDestroySpMat>;
using DnVec = Owned<cusparseDnVecDescr_t, cusparseDestroyDnVec>;
using DnMat = Owned<cusparseDnMatDescr_t, cusparseDestroyDnMat>;

/// cuSPARSE's handle, on a stream.
class Handle {
 public:
  explicit Handle(cudaStream_t stream) {
    cusparseHandle_t handle = nullptr;
    STAGES_CUSPARSE(cusparseCreate(&handle));
    handle_.reset(handle);
    STAGES_CUSPARSE(cusparseSetStream(handle, stream));
  }
  operator cusparseHandle_t() const { return handle_.get(); }

 private:
  Owned<cusparseHandle_t, cusparseDestroy> handle_;
};

template <class T>
inline constexpr cudaDataType kType = std::is_same_v<T, float> ? CUDA_R_32F : CUDA_R_64F;
template <class Ptr>
inline constexpr cusparseIndexType_t kIndexType = sizeof(Ptr) == 4 ? CUSPARSE_INDEX_32I : CUSPARSE_INDEX_64I;

/// A descriptor of `a`, which must outlive it.
template <class T, class Ptr>
SpMat describe(const DeviceCsr<T, Ptr>& a) {
  cusparseSpMatDescr_t out = nullptr;
  STAGES_CUSPARSE(cusparseCreateCsr(&out, a.rows, a.cols, static_cast<std::int64_t>(a.col_idx.size()),
                                    const_cast<Ptr*>(a.row_ptr.data()), const_cast<Index*>(a.col_idx.data()),
                                    const_cast<T*>(a.values.data()), kIndexType<Ptr>, CUSPARSE_INDEX_32I,
                                    CUSPARSE_INDEX_BASE_ZERO, kType<T>));
  return SpMat(out);
}

template <class T>
DnVec describe(const T* data, Index size) {
  cusparseDnVecDescr_t out = nullptr;
  STAGES_CUSPARSE(cusparseCreateDnVec(&out, size, const_cast<T*>(data), kType<T>));
  return DnVec(out);
}

/// Works for views of const and of mutable elements; cuSPARSE's descriptors know no const.
template <class T>
DnMat describe(DenseView<T> m) {
  using Value = std::remove_const_t<T>;
  cusparseDnMatDescr_t out = nullptr;
  STAGES_CUSPARSE(
      cusparseCreateDnMat(&out, m.rows, m.cols, m.ld, const_cast<Value*>(m.data), kType<Value>,
                          m.layout == Layout::row_major ? CUSPARSE_ORDER_ROW : CUSPARSE_ORDER_COL));
  return DnMat(out);
}

inline constexpr auto kPlain = CUSPARSE_OPERATION_NON_TRANSPOSE;

/// C = alpha A B + beta C by one of cuSPARSE's algorithms, preprocessed. What the views point to must outlive
/// it.
template <class T>
class Spmm {
 public:
  Spmm(const Csr<T>& a, DenseView<const T> b, DenseView<T> c, T alpha, T beta, cusparseSpMMAlg_t algorithm,
       GpuExec& exec)
      : alpha_(alpha),
        beta_(beta),
        algorithm_(algorithm),
        handle_(exec.stream()),
        a_(to_device(a)),
        matrix_(std::visit([](const auto& on_device) { return describe(on_device); }, a_)),
        b_(describe(b)),
        c_(describe(c)) {
    std::size_t bytes = 0;
    STAGES_CUSPARSE(cusparseSpMM_bufferSize(handle_, kPlain, kPlain, &alpha_, matrix_.get(), b_.get(), &beta_,
                                            c_.get(), kType<T>, algorithm_, &bytes));
    buffer_ = scratch(bytes);
    STAGES_CUSPARSE(cusparseSpMM_preprocess(handle_, kPlain, kPlain, &alpha_, matrix_.get(), b_.get(), &beta_,
                                            c_.get(), kType<T>, algorithm_, buffer_.data()));
    exec.synchronize();
  }
  void run() {
    STAGES_CUSPARSE(cusparseSpMM(handle_, kPlain, kPlain, &alpha_, matrix_.get(), b_.get(), &beta_, c_.get(),
                                 kType<T>, algorithm_, buffer_.data()));
  }

 private:
  T alpha_, beta_;
  cusparseSpMMAlg_t algorithm_;
  Handle handle_;
  AnyDeviceCsr<T> a_;
  SpMat matrix_;
  DnMat b_, c_;
  DeviceArray<unsigned char> buffer_;
};

/// What a plan costs that keeps A in device memory.
template <class Problem>
Cost cost_with_a(const Problem& problem) {
  return problem_cost(problem).plus_memory(device_csr_bytes(*problem.a));
}

/// cuSPARSE refuses matrices without rows, columns or non-zeros in some calls; this is why an entry refuses
/// them all.
template <class T>
std::optional<std::string> refuse_empty(const Csr<T>& a) {
  if (a.rows > 0 && a.cols > 0 && a.nnz() > 0) return std::nullopt;
  return fmt::format("cuSPARSE takes no empty matrix, and this one is {} x {} with {} non-zeros", a.rows,
                     a.cols, a.nnz());
}

}  // namespace stages::cusparse
