// SpMV on the matrix written out in full, with x in shared memory: a wrong turn, alone.
//
// The idea: each thread of 03_cuda_naive/2_dense_transposed.cu reads all of x from global memory. Here the
// threads of a block first copy a part of x, a *tile*, to the block's shared memory, each thread some of its
// elements. Then every thread reads it from there. All lanes of a warp read the same element, which is a
// broadcast. Two barriers make it right. The first stands after the copy: no thread reads an element before
// it has been copied. The second stands before the next copy: no thread overwrites what others still read.
// The last tile may be shorter. Threads beyond the last row must come to the barriers, too.
//
// A tile has a fixed size, so that __shared__ can declare it: it holds all of x up to n = 4096.
//
// Input: any matrix whose dense form fits. Cost: rows x cols multiplications; reads sizeof(T) x rows x cols
// bytes of the matrix and, for each block of 128 rows, x once.
//
// Source: the course project's second GPU step (70.59 ms against 125.08 for 1000 products of n = 1024 on a GTX
// 1080 Ti). On an H100 it is not faster than 2_dense_transposed.cu but three times as slow: shared memory is
// not fast by itself.

#include "04_cuda_shared/stage.hpp"
#include "common/gpu/frames.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;  ///< threads of a block
constexpr Index kTile = 4096;     ///< elements of x in shared memory

/// y = A x with element (i, j) of A at a.data[j * a.ld + i].
template <class T>
__global__ void shared_memory(DenseView<const T> a, const T* x, T* y) {
  __shared__ T shared_x[kTile];
  const Offset row = Offset{blockIdx.x} * kBlock + threadIdx.x;
  const bool has_row = row < a.rows;
  T sum = 0;
  for (Index first = 0; first < a.cols; first += kTile) {
    const Index columns = min(kTile, a.cols - first);
    for (Offset k = threadIdx.x; k < columns; k += kBlock) shared_x[k] = x[first + k];
    __syncthreads();
    if (has_row) {
      for (Index k = 0; k < columns; ++k) sum += a.data[(first + k) * a.ld + row] * shared_x[k];
    }
    __syncthreads();
  }
  if (has_row) y[row] = sum;
}

}  // namespace

void add_shared_memory(Registry& registry) {
  registry.add<DenseByColumns>(
      {.name = "04_cuda_shared/shared_memory",
       .idea = "a wrong turn alone: the transposed matrix, a thread a row, x by tiles in shared memory",
       .previous = "03_cuda_naive/dense_transposed"},
      []<class T>(const DenseView<const T>& a, const T* x, T* y, cudaStream_t stream) {
        launch(shared_memory<T>, {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = stream}, a,
               x, y);
      });
}

}  // namespace stages
