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

#include "micro/spmv.hpp"

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

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmv<micro::ColumnsSpmv>(
      registry, {.name = "task/dense_transposed", .idea = "a thread per row"},
      []<class T>(const DenseView<const T>& a, const T* x, T* y, cudaStream_t stream) {
        launch(multiply<T>, {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = stream}, a, x, y);
      });
}

}  // namespace stages
