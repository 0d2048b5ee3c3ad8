// Task: fill in the number of a thread: which row of y is its?
// Step: 03_cuda_naive
// Reference: 03_cuda_naive/dense_transposed
// At most: 3 sectors a request in loads
// At least: 28 lanes a request in loads
//
// A kernel runs in many threads at once, and each must find out which part of the work is its own. Threads
// come in blocks of blockDim.x. A thread knows its place in its block (threadIdx.x), and its block's place in
// the grid (blockIdx.x), both from 0. Here thread number i of the whole grid has row i.
//
//   blockIdx.x        0                 1                 2            blockDim.x = 32
//   threadIdx.x   0 1 2 ... 31      0 1 2 ... 31      0 1 2 ... 31
//   row           0 1 2 ... 31     32 33 34 . 63     64 65 66 . 95     neighbours have neighbouring rows
//
// A request is one access of a warp: 32 neighbouring threads (its lanes) read at once. A is stored by columns:
// they read 32 floats side by side, which are 4 sectors (pieces of 32 bytes), or 5 where they begin within one.
// All of them read the same x, which is 1 sector. So a request takes at most 3 sectors in the mean. A warp has
// 32 lanes, and the last one of 600 rows has 24.
//
// Hint: How many threads come before the first one of block 2? And before block b?
// Hint: All blocks before this one are full: their threads, and then the place of the thread in its own.
// Hint: blockIdx.x * blockDim.x is the number of the block's first thread. Add the place in the block.

#include "micro/spmv.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 32;

/// y = A x with element (i, j) of A at a.data[j * a.ld + i].
template <class T>
__global__ void multiply(DenseView<const T> a, const T* x, T* y) {
  // SOLUTION
  const unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
  // STUDENT
  // Your code. Until then all blocks have the rows of the first one.
  const unsigned row = threadIdx.x;
  // END
  if (row >= static_cast<unsigned>(a.rows)) return;
  T sum = 0;
  for (Index j = 0; j < a.cols; ++j) sum += a.data[j * a.ld + row] * x[j];
  y[row] = sum;
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmv<micro::ColumnsSpmv>(
      registry, {.name = "micro/thread_index", .idea = "a thread finds its row"},
      []<class T>(const DenseView<const T>& a, const T* x, T* y, cudaStream_t stream) {
        launch(multiply<T>, {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = stream}, a, x, y);
      });
}

}  // namespace stages
