// SpMV, a thread per row, that multiplies where nobody times it.

#include <optional>

#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"
#include "common/gpu/stream.hpp"
#include "tests/cuda_mutants/in_run_mutants.hpp"

namespace stages::cuda_mutants {
namespace {

constexpr unsigned kBlock = 64;

template <class T>
__global__ void thread_per_row(CsrView<T> a, const T* x, T* y) {
  const unsigned row = blockIdx.x * kBlock + threadIdx.x;
  if (row >= static_cast<unsigned>(a.rows)) return;
  T sum = 0;
  for (Offset p = a.row_ptr[row]; p < a.row_ptr[row + 1]; ++p) sum += a.values[p] * x[a.col_idx[p]];
  y[row] = sum;
}

template <class T>
__global__ void copy(const T* from, T* to, unsigned count) {
  const unsigned i = blockIdx.x * kBlock + threadIdx.x;
  if (i < count) to[i] = from[i];
}

template <class T>
class InRunPlan final : public DeviceSpmvPlan<T> {
 public:
  InRunPlan(const SpmvProblem<T>& problem, Exec& exec, InRunFault fault)
      : DeviceSpmvPlan<T>(problem, exec),
        fault_(fault),
        matrix_(*problem.a),
        kept_(static_cast<std::size_t>(problem.a->rows)) {}

  static Cost cost(const SpmvProblem<T>& problem) { return problem_cost(problem); }

  void load(const SpmvOperands<T>& operands) override {
    DeviceSpmvPlan<T>::load(operands);
    runs_ = 0;
    if (copies()) {
      multiply(this->x_of(0), kept_.data(), this->stream());
      this->exec().synchronize();
    }
  }
  void reset() override {
    DeviceSpmvPlan<T>::reset();
    runs_ = 0;
    was_run_ = false;
  }
  Dense<T> fetch() override {
    if (fault_ == InRunFault::multiplies_in_fetch && was_run_)
      multiply(this->x_of(0), this->y_of(0), this->stream());
    Dense<T> y = DeviceSpmvPlan<T>::fetch();
    if (fault_ != InRunFault::first_answer) return y;
    if (!first_) first_ = y;
    return *first_;
  }

 protected:
  void product(const T* x, T* y) override {
    using F = InRunFault;
    ++runs_;
    was_run_ = true;
    const auto rows = static_cast<unsigned>(this->a().rows);
    if (fault_ == F::copies_from_load) {
      STAGES_CUDA(cudaMemcpyAsync(y, kept_.data(), kept_.bytes(), cudaMemcpyDeviceToDevice, this->stream()));
    } else if (fault_ == F::copies_by_a_kernel) {
      launch(copy<T>, {.grid = blocks_for(rows, kBlock), .block = kBlock, .stream = this->stream()},
             static_cast<const T*>(kept_.data()), y, rows);
    } else if (fault_ == F::on_the_host) {
      on_the_host(x, y);
    } else if (fault_ == F::in_another_stream) {
      multiply(x, y, other_);
    } else if (fault_ != F::multiplies_in_fetch && (fault_ != F::replays || runs_ == 1)) {
      multiply(x, y, this->stream());
    }
  }

 private:
  bool copies() const {
    return fault_ == InRunFault::copies_from_load || fault_ == InRunFault::copies_by_a_kernel;
  }

  void multiply(const T* x, T* y, cudaStream_t stream) {
    launch(thread_per_row<T>, {.grid = blocks_for(this->a().rows, kBlock), .block = kBlock, .stream = stream},
           matrix_.view(), x, y);
  }

  void on_the_host(const T* x, T* y) {
    const Csr<T>& a = this->a();
    std::vector<T> from(static_cast<std::size_t>(a.cols)), to;
    STAGES_CUDA(
        cudaMemcpyAsync(from.data(), x, from.size() * sizeof(T), cudaMemcpyDeviceToHost, this->stream()));
    this->exec().synchronize();
    for (Index i = 0; i < a.rows; ++i) {
      T sum = 0;
      const auto columns = row_columns(a, i);
      const auto values = row_values(a, i);
      for (std::size_t k = 0; k < columns.size(); ++k)
        sum += values[k] * from[static_cast<std::size_t>(columns[k])];
      to.push_back(sum);
    }
    STAGES_CUDA(cudaMemcpyAsync(y, to.data(), to.size() * sizeof(T), cudaMemcpyHostToDevice, this->stream()));
    this->exec().synchronize();
  }

  InRunFault fault_;
  DeviceCsr<T, Offset> matrix_;
  DeviceArray<T> kept_;
  Stream other_;
  std::optional<Dense<T>> first_;
  int runs_ = 0;          // since the last load or reset
  bool was_run_ = false;  // since the last reset
};

}  // namespace

Entry in_run_entry(InRunFault fault) {
  Registry registry;
  registry.add<InRunPlan>({.name = "mutant/in_run", .idea = "a planted fault", .needs = {.gpu = true}},
                          fault);
  return registry.entries().front();
}

}  // namespace stages::cuda_mutants
