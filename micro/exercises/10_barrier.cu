// Task: fill in the two barriers of a loop over tiles in shared memory.
// Step: 04_cuda_shared
// Reference: 04_cuda_shared/shared_memory
// At most: 220 barriers
// At most: 300 requests in loads of x
// No race
//
// The threads of a block fetch a tile of x together, one element each, and then all of them read all of it.
// Threads do not go in step: one may be a tile ahead of another. __syncthreads() holds each thread until all
// threads of its block have come to it. Two things may go wrong here, so there are two places for it.
//
//   thread 0   write tile[0]  |  read tile[0 .. 63]  |  write tile[0]  |  read ...
//   thread 1   write tile[1]  |  read tile[0 .. 63]  |  write tile[1]  |  read ...
//                             ^                      ^
//              nobody reads what is not there yet    nobody overwrites what others still read
//
// All threads of the block must come to a barrier, those without a row, too. Counted are 10 blocks with 10
// tiles each: 200 barriers.
//
// Hint: What does thread 0 find in tile[1] if thread 1 has not come so far? And where can it be too far ahead?
// Hint: One barrier between the writing and the reading. One between the reading and the next writing.
// Hint: __syncthreads(); stands before the `if (has_row)` and after it, and never inside of it.

#include "micro/spmv.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 64;  ///< threads of a block, and elements of a tile

/// y = A x with element (i, j) of A at a.data[j * a.ld + i].
template <class T>
__global__ void multiply(DenseView<const T> a, const T* x, T* y) {
  __shared__ T tile[kBlock];
  const unsigned row = blockIdx.x * kBlock + threadIdx.x, cols = static_cast<unsigned>(a.cols);
  const bool has_row = row < static_cast<unsigned>(a.rows);
  T sum = 0;
  for (unsigned first = 0; first < cols; first += kBlock) {
    const unsigned columns = min(kBlock, cols - first);
    // SOLUTION
    if (threadIdx.x < columns) tile[threadIdx.x] = x[first + threadIdx.x];
    __syncthreads();
    if (has_row) {
      for (unsigned k = 0; k < columns; ++k) sum += a.data[(first + k) * a.ld + row] * tile[k];
    }
    __syncthreads();
    // STUDENT
    // Your code: two barriers, somewhere in these lines.
    if (threadIdx.x < columns) tile[threadIdx.x] = x[first + threadIdx.x];
    if (has_row) {
      for (unsigned k = 0; k < columns; ++k) sum += a.data[(first + k) * a.ld + row] * tile[k];
    }
    // END
  }
  if (has_row) y[row] = sum;
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmv<micro::ColumnsSpmv>(
      registry, {.name = "micro/barrier", .idea = "x by tiles in shared memory"},
      []<class T>(const DenseView<const T>& a, const T* x, T* y, cudaStream_t stream) {
        launch(multiply<T>, {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = stream}, a, x, y);
      });
}

}  // namespace stages
