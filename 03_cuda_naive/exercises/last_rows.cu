// Task: find the fault in the launch, and mend it: y = A x with a thread per row, blocks of 16.
// Reference: 03_cuda_naive/dense_transposed
// At most: 640 threads
//
// The kernel is right. Yet for a matrix of 8191 rows, the size of the original's, the last 15 elements of y
// are never computed: they are what lay in that memory before. The original's report saw that fewer elements
// came out, and put it down to repeated non-zeros in its input.
//
// Say before you run it: which sizes are right by luck? And what is there for the check to see, which fills y
// with NaN before each run?

#include "micro/spmv.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 16;

template <class T>
__global__ void multiply(DenseView<const T> a, const T* x, T* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= static_cast<unsigned>(a.rows)) return;
  T sum = 0;
  for (Index j = 0; j < a.cols; ++j) sum += a.data[j * a.ld + i] * x[j];
  y[i] = sum;
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmv<micro::ColumnsSpmv>(
      registry, {.name = "task/last_rows", .idea = "a thread per row"},
      []<class T>(const DenseView<const T>& a, const T* x, T* y, cudaStream_t stream) {
        // SOLUTION
        const unsigned blocks = (static_cast<unsigned>(a.rows) + kBlock - 1) / kBlock;
        // STUDENT
        const unsigned blocks = static_cast<unsigned>(a.rows) / kBlock;
        // END
        launch(multiply<T>, {.grid = blocks, .block = kBlock, .stream = stream}, a, x, y);
      });
}

}  // namespace stages
