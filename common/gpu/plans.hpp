#pragma once
// The device side that all GPU plans share: matrices in device memory, operands and results that travel, and
// the order of the products.

#include <span>
#include <variant>

#include "common/gpu/exec.hpp"
#include "common/gpu/memory.hpp"
#include "common/harness/plan.hpp"
#include "common/matrix/convert.hpp"

namespace stages {

/// A Csr in device memory. `Ptr` is int32 where the non-zeros allow, which halves the traffic of row_ptr.
template <class T, class Ptr>
struct DeviceCsr {
  Index rows = 0;
  Index cols = 0;
  DeviceArray<Ptr> row_ptr;
  DeviceArray<Index> col_idx;
  DeviceArray<T> values;

  DeviceCsr() = default;
  /// A copy of `a`. Throws Error if Ptr cannot count its non-zeros, OutOfDeviceMemory if it does not fit.
  explicit DeviceCsr(const Csr<T>& a)
      : rows(a.rows),
        cols(a.cols),
        col_idx(std::span<const Index>(a.col_idx)),
        values(std::span<const T>(a.values)) {
    narrow<Ptr>(a.nnz(), "the number of non-zeros");
    if constexpr (std::is_same_v<Ptr, Offset>) {
      row_ptr = DeviceArray<Ptr>(std::span<const Ptr>(a.row_ptr));
    } else {
      const std::vector<Ptr> narrowed(a.row_ptr.begin(), a.row_ptr.end());
      row_ptr = DeviceArray<Ptr>(std::span<const Ptr>(narrowed));
    }
  }
  CsrView<T, Ptr> view() const { return {rows, cols, row_ptr.data(), col_idx.data(), values.data()}; }
};

/// A DeviceCsr with the narrowest row pointers that hold it; std::visit gives the kernel its type.
template <class T>
using AnyDeviceCsr = std::variant<DeviceCsr<T, std::int32_t>, DeviceCsr<T, Offset>>;

template <class T>
AnyDeviceCsr<T> to_device(const Csr<T>& a) {
  if (std::in_range<std::int32_t>(a.nnz())) return DeviceCsr<T, std::int32_t>(a);
  return DeviceCsr<T, Offset>(a);
}

/// A matrix whose arrays lie in device memory (`c`: a DeviceCsr, or another class of such arrays), on the host.
template <class T, class Arrays>
Csr<T> csr_to_host(const Arrays& c, Index rows, Index cols, GpuExec& exec) {
  const auto download = [&](const auto& from) {
    Buffer<std::decay_t<decltype(*from.data())>> to(from.size());
    if (from.size() > 0)
      STAGES_CUDA(
          cudaMemcpyAsync(to.data(), from.data(), from.bytes(), cudaMemcpyDeviceToHost, exec.stream()));
    return to;
  };
  Csr<T> out;
  out.rows = rows;
  out.cols = cols;
  const auto row_ptr = download(c.row_ptr);
  out.col_idx = download(c.col_idx);
  out.values = download(c.values);
  exec.synchronize();
  out.row_ptr.assign(row_ptr.begin(), row_ptr.end());
  return out;
}

/// Bytes of `a` as a DeviceCsr, for cost().
template <class T>
double device_csr_bytes(const Csr<T>& a) {
  const double ptr = std::in_range<std::int32_t>(a.nnz()) ? 4 : 8;
  return ptr * (a.rows + 1.0) + static_cast<double>(sizeof(Index) + sizeof(T)) * static_cast<double>(a.nnz());
}

/// Vectors on the device for all SpMV plans. A derived class gives product(x, y), which puts y = A x for one
/// vector on the stream; one that takes many in one launch overrides run().
template <class T>
class DeviceSpmvPlan : public SpmvPlan<T> {
 public:
  static constexpr Needs kNeeds = {.gpu = true};
  DeviceSpmvPlan(const SpmvProblem<T>& problem, Exec& exec)
      : problem_(problem),
        exec_(as_gpu(exec)),
        x_(static_cast<std::size_t>(problem.a->cols) *
           static_cast<std::size_t>(chain() ? 1 : problem.n_vectors)),
        y_(static_cast<std::size_t>(problem.a->rows) * static_cast<std::size_t>(problem.n_vectors)) {}

  void load(const SpmvOperands<T>& operands) override {
    x_.upload(operands.x.data, stream());
    exec_.synchronize();
  }
  void reset() override { y_.fill_bytes(0xFF, stream()); }  // all bits set: NaN
  void run() override {
    for (Index j = 0; j < problem_.n_vectors; ++j) product(x_of(j), y_of(j));
  }
  Dense<T> fetch() override {
    Dense<T> y(problem_.a->rows, problem_.n_vectors, Layout::col_major);
    y_.download(y.data, stream());
    exec_.synchronize();
    return y;
  }

 protected:
  virtual void product(const T* x, T* y) = 0;

  const SpmvProblem<T>& problem() const { return problem_; }
  const Csr<T>& a() const { return *problem_.a; }
  bool chain() const { return problem_.mode == Mode::chain; }
  GpuExec& exec() { return exec_; }
  cudaStream_t stream() const { return exec_.stream(); }
  /// The vector that product j reads: in a chain the result of the product before it.
  const T* x_of(Index j) const {
    if (chain())
      return j == 0 ? x_.data()
                    : y_.data() + static_cast<std::size_t>(j - 1) * static_cast<std::size_t>(a().rows);
    return x_.data() + static_cast<std::size_t>(j) * static_cast<std::size_t>(a().cols);
  }
  T* y_of(Index j) { return y_.data() + static_cast<std::size_t>(j) * static_cast<std::size_t>(a().rows); }

 private:
  SpmvProblem<T> problem_;
  GpuExec& exec_;
  DeviceArray<T> x_;
  DeviceArray<T> y_;
};

/// How far apart the rows of a matrix written out lie (its columns where those are stored one after another).
enum class Ld {
  tight,  ///< one begins where the one before it ends
  odd,    ///< an odd number of elements, so with a gap of one where their length is even
};

/// The matrix written out in full on the device, for SpMV. multiply(a, x, y, stream), a frame's lambda
/// (registry.hpp) or a derived class's, launches the kernel: y = A x.
template <class T, Layout kLayout, Ld kLd = Ld::tight>
class DenseSpmvPlan : public DeviceSpmvPlan<T> {
 public:
  DenseSpmvPlan(const SpmvProblem<T>& problem, Exec& exec)
      : DeviceSpmvPlan<T>(problem, exec),
        elements_(std::span<const T>(to_dense(*problem.a, kLayout, ld(*problem.a)).data)) {}

  static Cost cost(const SpmvProblem<T>& problem) {
    const Csr<T>& a = *problem.a;
    return problem_cost(problem)
        .with_work(static_cast<double>(a.rows) * a.cols * problem.n_vectors)
        .plus_memory(static_cast<double>(kLayout == Layout::row_major ? a.rows : a.cols) *
                     static_cast<double>(ld(a)) * sizeof(T));
  }

 protected:
  virtual void multiply(const DenseView<const T>& a, const T* x, T* y, cudaStream_t stream) = 0;

 private:
  static Offset ld(const Csr<T>& a) {
    const Offset length = kLayout == Layout::row_major ? a.cols : a.rows;
    return kLd == Ld::odd ? length | 1 : length;
  }
  void product(const T* x, T* y) final {
    const Csr<T>& a = this->a();
    multiply({a.rows, a.cols, ld(a), kLayout, elements_.data()}, x, y, this->stream());
  }

  DeviceArray<T> elements_;
};

/// B and C on the device for all SpMM plans. A derived class gives run(): c() = alpha A b() + beta c().
template <class T>
class DeviceSpmmPlan : public SpmmPlan<T> {
 public:
  static constexpr Needs kNeeds = {.gpu = true};
  DeviceSpmmPlan(const SpmmProblem<T>& problem, Exec& exec)
      : problem_(problem),
        exec_(as_gpu(exec)),
        b_(static_cast<std::size_t>(
            Dense<T>::elements(problem.a->cols, problem.n_cols, problem.b_layout, problem.ldb))),
        c_(static_cast<std::size_t>(
            Dense<T>::elements(problem.a->rows, problem.n_cols, problem.c_layout, problem.ldc))),
        c0_(problem.beta == T{0} ? 0 : c_.size()) {}

  void load(const SpmmOperands<T>& operands) override {
    b_.upload(operands.b.data, stream());
    if (!c0_.empty()) c0_.upload(operands.c0.data, stream());
    exec_.synchronize();
  }
  void reset() override {
    if (c0_.empty()) {
      c_.fill_bytes(0xFF, stream());  // all bits set: NaN
    } else {
      STAGES_CUDA(cudaMemcpyAsync(c_.data(), c0_.data(), c_.bytes(), cudaMemcpyDeviceToDevice, stream()));
    }
  }
  Dense<T> fetch() override {
    Dense<T> c(problem_.a->rows, problem_.n_cols, problem_.c_layout, problem_.ldc);
    c_.download(c.data, stream());
    exec_.synchronize();
    return c;
  }

 protected:
  const SpmmProblem<T>& problem() const { return problem_; }
  const Csr<T>& a() const { return *problem_.a; }
  GpuExec& exec() { return exec_; }
  cudaStream_t stream() const { return exec_.stream(); }
  DenseView<const T> b() const {
    return {a().cols, problem_.n_cols, problem_.ldb, problem_.b_layout, b_.data()};
  }
  DenseView<T> c() { return {a().rows, problem_.n_cols, problem_.ldc, problem_.c_layout, c_.data()}; }

 private:
  SpmmProblem<T> problem_;
  GpuExec& exec_;
  DeviceArray<T> b_;
  DeviceArray<T> c_;
  DeviceArray<T> c0_;
};

/// A and B on the device for all SpGEMM plans, structure at prepare, values at load. A derived class gives
/// run(), which leaves C in c_.
template <class T>
class DeviceSpgemmPlan : public SpgemmPlan<T> {
 public:
  static constexpr Needs kNeeds = {.gpu = true};
  DeviceSpgemmPlan(const SpgemmProblem<T>& problem, Exec& exec)
      : problem_(problem), exec_(as_gpu(exec)), a_(to_device(*problem.a)), b_(to_device(*problem.b)) {}

  void load(const SpgemmOperands<T>& operands) override {
    std::visit([&](auto& a) { a.values.upload(operands.a_values, stream()); }, a_);
    std::visit([&](auto& b) { b.values.upload(operands.b_values, stream()); }, b_);
    exec_.synchronize();
  }
  void reset() override { c_ = {}; }
  Csr<T> fetch() override {
    return std::visit([&](auto& c) { return csr_to_host<T>(c, problem_.a->rows, problem_.b->cols, exec_); },
                      c_);
  }

 protected:
  const SpgemmProblem<T>& problem() const { return problem_; }
  GpuExec& exec() { return exec_; }
  cudaStream_t stream() const { return exec_.stream(); }
  const AnyDeviceCsr<T>& a() const { return a_; }
  const AnyDeviceCsr<T>& b() const { return b_; }
  AnyDeviceCsr<T> c_;  ///< the result of the last run

 private:
  SpgemmProblem<T> problem_;
  GpuExec& exec_;
  AnyDeviceCsr<T> a_;
  AnyDeviceCsr<T> b_;
};

}  // namespace stages
