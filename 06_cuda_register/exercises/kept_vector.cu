// Task: find the fault, and mend it: what may stay on the chip between products, and what may not?
// Reference: 06_cuda_register/row_per_thread
// At most: 400 requests in loads of x
//
// The lesson of this step is to keep on the chip what does not change. This plan keeps a copy of its own of
// what the kernel reads, and makes it once. Timed, it looks fine; and a check that always multiplies the same
// vector, or one that never reads what it compares, passes it: the original's printed "4PASSED" beside a
// library call that had failed.
//
// Say before you run it: with which of its operands does the check of this project see the fault? (See
// docs/checking.md.)

#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"
#include "common/harness/registry.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 64;

template <class T>
__global__ void multiply(CsrView<T, std::int32_t> a, const T* x, T* y) {
  const int row = static_cast<int>(blockIdx.x * kBlock + threadIdx.x);
  if (row >= a.rows) return;
  T sum = 0;
  for (std::int32_t p = a.row_ptr[row]; p < a.row_ptr[row + 1]; ++p) sum += a.values[p] * x[a.col_idx[p]];
  y[row] = sum;
}

template <class T>
class MyKept final : public DeviceSpmvPlan<T> {
 public:
  MyKept(const SpmvProblem<T>& problem, Exec& exec)
      : DeviceSpmvPlan<T>(problem, exec), a_(*problem.a), kept_(static_cast<std::size_t>(problem.a->cols)) {}

  static Cost cost(const SpmvProblem<T>& problem) { return problem_cost(problem); }

 protected:
  void product(const T* x, T* y) override {
    // SOLUTION
    STAGES_CUDA(
        cudaMemcpyAsync(kept_.data(), x, kept_.size() * sizeof(T), cudaMemcpyDeviceToDevice, this->stream()));
    // STUDENT
    if (!has_kept_) {
      STAGES_CUDA(cudaMemcpyAsync(kept_.data(), x, kept_.size() * sizeof(T), cudaMemcpyDeviceToDevice,
                                  this->stream()));
      has_kept_ = true;
    }
    // END
    launch(multiply<T>, {.grid = blocks_for(a_.rows, kBlock), .block = kBlock, .stream = this->stream()},
           a_.view(), kept_.data(), y);
  }

 private:
  DeviceCsr<T, std::int32_t> a_;
  DeviceArray<T> kept_;
  bool has_kept_ = false;
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<MyKept>({.name = "task/kept_vector", .idea = "a thread per row", .needs = {.gpu = true}});
}

}  // namespace stages
