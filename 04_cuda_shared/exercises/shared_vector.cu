// Task: fill in the kernel: y = A x with a thread per row, x by tiles in shared memory, 16 loads in flight.
// Reference: 04_cuda_shared/shared_vector
// Speed: gen:fixed:n=4096,zeros=0.8
// At most: 200 requests in loads of x
// At most: 4.1 sectors a request in loads of values
// No race
//
// Element (i, j) of A stands at a.data[j * a.ld + i]. The block copies kTile elements of x to shared memory
// together, each thread some of them, and then each thread goes on with its row's sum over these columns.
// Three things decide whether it is right: where the two barriers stand, what the last, shorter tile does,
// and what the threads of the last block do that have no row.
//
// Shared memory alone is slower than you may expect (see shared_memory in the README's table). So let a
// thread ask for kBatch elements of the matrix before it uses the first, and do the rest of a tile one by
// one.
//
// Before you write: how many bytes of x does a block read from global memory with the tile, and how many
// without? What limits the kernel afterwards?

#include "micro/spmv.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;
constexpr Index kTile = 512;
constexpr Index kBatch = 16;  ///< loads of the matrix that a thread has in flight

template <class T>
__global__ void __launch_bounds__(kBlock, 1) multiply(DenseView<const T> a, const T* x, T* y) {
  T* const tile = dynamic_shared<T>();  // kTile elements
  // SOLUTION
  const unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
  const bool has_row = row < static_cast<unsigned>(a.rows);
  T sum = 0;
  for (Index first = 0; first < a.cols; first += kTile) {
    const Index columns = min(kTile, a.cols - first);
    for (Index k = static_cast<Index>(threadIdx.x); k < columns; k += kBlock) tile[k] = x[first + k];
    __syncthreads();  // nobody reads what is not there yet
    if (has_row) {
      const T* element = a.data + first * a.ld + row;
      Index k = 0;
      for (; k + kBatch <= columns; k += kBatch) {
        T batch[kBatch];
#pragma unroll
        for (Index u = 0; u < kBatch; ++u) batch[u] = element[(k + u) * a.ld];
#pragma unroll
        for (Index u = 0; u < kBatch; ++u) sum += batch[u] * tile[k + u];
      }
      for (; k < columns; ++k) sum += element[k * a.ld] * tile[k];
    }
    __syncthreads();  // nobody overwrites what others still read
  }
  if (has_row) y[row] = sum;
  // STUDENT
  // Your code.
  // END
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmv<micro::ColumnsSpmv>(
      registry, {.name = "task/shared_vector", .idea = "x by tiles in shared memory"},
      []<class T>(const DenseView<const T>& a, const T* x, T* y, cudaStream_t stream) {
        launch(multiply<T>,
               {.grid = blocks_for(a.rows, kBlock),
                .block = kBlock,
                .shared_bytes = kTile * sizeof(T),
                .stream = stream},
               a, x, y);
      });
}

}  // namespace stages
