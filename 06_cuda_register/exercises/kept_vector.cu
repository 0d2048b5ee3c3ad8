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

#include "micro/spmv.hpp"

namespace stages {
namespace {

using micro::DeviceRows;
constexpr unsigned kBlock = 64;

template <class T>
__global__ void multiply(DeviceRows<T> a, const T* x, T* y) {
  const int row = static_cast<int>(blockIdx.x * kBlock + threadIdx.x);
  if (row >= a.rows) return;
  T sum = 0;
  for (std::int32_t p = a.row_ptr[row]; p < a.row_ptr[row + 1]; ++p) sum += a.values[p] * x[a.col_idx[p]];
  y[row] = sum;
}

template <class T>
class MyKept final : public micro::CsrSpmv<T> {
 public:
  MyKept(const SpmvProblem<T>& problem, Exec& exec)
      : micro::CsrSpmv<T>(problem, exec), kept_(static_cast<std::size_t>(problem.a->cols)) {}

 private:
  void multiply(const DeviceRows<T>& a, const T* x, T* y, cudaStream_t stream) override {
    // SOLUTION
    STAGES_CUDA(cudaMemcpyAsync(kept_.data(), x, kept_.size() * sizeof(T), cudaMemcpyDeviceToDevice, stream));
    // STUDENT
    if (!has_kept_) {
      STAGES_CUDA(
          cudaMemcpyAsync(kept_.data(), x, kept_.size() * sizeof(T), cudaMemcpyDeviceToDevice, stream));
      has_kept_ = true;
    }
    // END
    launch(stages::multiply<T>, {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = stream}, a,
           kept_.data(), y);
  }

  DeviceArray<T> kept_;
  bool has_kept_ = false;
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<MyKept>({.name = "task/kept_vector", .idea = "a thread per row"});
}

}  // namespace stages
