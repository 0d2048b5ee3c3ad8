// Task: fill in the loop over tiles with two buffers: one is filled while one is used.
// Step: 04_cuda_shared
// Reference: 04_cuda_shared/shared_memory
// At most: 110 barriers
// At most: 300 requests in loads of x
// No race
//
// With one buffer a block waits twice a tile: for the tile to be there, and for all threads to be done with it.
// With two buffers, tile t + 1 goes to the buffer that nobody reads while tile t is used. Its loads are on
// their way during the sums, and one barrier a tile is enough: 100 where 10 blocks have 10 tiles each. The
// 20 warps then read x in 200 requests, and the sums take it from the buffers.
//
//   buffer 0   fetch 0 | use 0            | fetch 2 .. use .. | use 2
//   buffer 1           | fetch 1          | use 1             | fetch 3
//                      ^                  ^                   ^
//                      barrier            barrier             barrier
//
// Hint: When is the buffer of tile t + 1 free? Who was the last to read it, and which barrier came after that?
// Hint: In round t: a barrier, then fetch tile t + 1 into the other buffer if there is one, then use tile t.
// Hint: Tile t is in buffer t % 2. for (t = 0; t < tiles; ++t) { __syncthreads(); if (t + 1 < tiles)
//   fetch(t + 1, buffer of t + 1); use(t, buffer of t); }

#include "micro/spmv.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 64;  ///< threads of a block, and elements of a tile

/// y = A x with element (i, j) of A at a.data[j * a.ld + i].
template <class T>
__global__ void multiply(DenseView<const T> a, const T* x, T* y) {
  __shared__ T buffer[2][kBlock];
  const unsigned row = blockIdx.x * kBlock + threadIdx.x, cols = static_cast<unsigned>(a.cols);
  const unsigned tiles = (cols + kBlock - 1) / kBlock;
  const bool has_row = row < static_cast<unsigned>(a.rows);
  T sum = 0;
  /// This thread's element of tile t.
  const auto fetch = [&](unsigned t, T* to) {
    const unsigned k = t * kBlock + threadIdx.x;
    if (k < cols) to[threadIdx.x] = x[k];
  };
  /// Adds up what the elements of tile t give.
  const auto use = [&](unsigned t, const T* from) {
    for (unsigned k = t * kBlock; has_row && k < min(cols, (t + 1) * kBlock); ++k)
      sum += a.data[k * a.ld + row] * from[k % kBlock];
  };

  if (tiles > 0) fetch(0, buffer[0]);
  // SOLUTION
  for (unsigned t = 0; t < tiles; ++t) {
    __syncthreads();
    if (t + 1 < tiles) fetch(t + 1, buffer[(t + 1) % 2]);
    use(t, buffer[t % 2]);
  }
  // STUDENT
  // Your code. Until then there is one tile.
  __syncthreads();
  if (tiles == 1) use(0, buffer[0]);
  // END
  if (has_row) y[row] = sum;
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmv<micro::ColumnsSpmv>(
      registry, {.name = "micro/double_buffer", .idea = "the next tile comes while one is used"},
      []<class T>(const DenseView<const T>& a, const T* x, T* y, cudaStream_t stream) {
        launch(multiply<T>, {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = stream}, a, x, y);
      });
}

}  // namespace stages
