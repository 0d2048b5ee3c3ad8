// Task: fill in the kernel: y = A x with a thread per row, on the matrix written out column by column.
// Reference: 03_cuda_naive/dense_transposed
// Speed: gen:fixed:n=4096,zeros=0.8
// At most: 4.1 sectors a request in loads of values
//
// Element (i, j) of A stands at a.data[j * a.ld + i], so that neighbouring threads read neighbouring numbers.
// The grid covers all rows, and its last block reaches beyond them.
//
// Before you write: which threads of a warp read which addresses at step j, and how many sectors of 32 bytes
// is that? How many would it be with element (i, j) at a.data[i * a.ld + j]?

#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"
#include "common/harness/registry.hpp"
#include "common/matrix/convert.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;

template <class T>
__global__ void multiply(DenseView<const T> a, const T* x, T* y) {
  // SOLUTION
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= static_cast<unsigned>(a.rows)) return;
  T sum = 0;
  for (Index j = 0; j < a.cols; ++j) sum += a.data[j * a.ld + i] * x[j];
  y[i] = sum;
  // STUDENT
  // Your code: which row is this thread's, and is there one? Then its sum over all columns, into y.
  // END
}

template <class T>
class MyDense final : public DeviceSpmvPlan<T> {
 public:
  MyDense(const SpmvProblem<T>& problem, Exec& exec)
      : DeviceSpmvPlan<T>(problem, exec),
        dense_(std::span<const T>(to_dense(*problem.a, Layout::col_major).data)) {}

  static Cost cost(const SpmvProblem<T>& problem) { return problem_cost(problem); }

 protected:
  void product(const T* x, T* y) override {
    const Csr<T>& a = this->a();
    const DenseView<const T> dense{a.rows, a.cols, a.rows, Layout::col_major, dense_.data()};
    launch(multiply<T>, {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = this->stream()},
           dense, x, y);
  }

 private:
  DeviceArray<T> dense_;
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<MyDense>(
      {.name = "task/dense_transposed", .idea = "a thread per row", .needs = {.gpu = true}});
}

}  // namespace stages
