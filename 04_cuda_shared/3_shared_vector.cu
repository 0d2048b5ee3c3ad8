// SpMV on the matrix written out in full, with x in shared memory and many loads in flight.
//
// The idea: 1_shared_memory.cu and 2_batched_loads.cu together. With x in shared memory, only the matrix is
// read from global memory in the loop, so all loads that a thread has in flight are loads of the matrix.
//
// Input: any matrix whose dense form fits. Cost: as 1_shared_memory.cu.

#include "04_cuda_shared/stage.hpp"
#include "common/gpu/frames.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;  ///< threads of a block
constexpr Index kTile = 4096;     ///< elements of x in shared memory
constexpr Index kBatch = 16;      ///< loads of the matrix that a thread has in flight

/// y = A x with element (i, j) of A at a.data[j * a.ld + i].
template <class T>
__global__ void __launch_bounds__(kBlock, 1) shared_vector(DenseView<const T> a, const T* x, T* y) {
  __shared__ T shared_x[kTile];
  const Offset row = Offset{blockIdx.x} * kBlock + threadIdx.x;
  const bool has_row = row < a.rows;
  T sum = 0;
  for (Index first = 0; first < a.cols; first += kTile) {
    const Index columns = min(kTile, a.cols - first);
    for (Offset k = threadIdx.x; k < columns; k += kBlock) shared_x[k] = x[first + k];
    __syncthreads();
    if (has_row) {
      const T* element = a.data + first * a.ld + row;
      Index k = 0;
      for (; k + kBatch <= columns; k += kBatch) {
        T batch[kBatch];
#pragma unroll
        for (Index u = 0; u < kBatch; ++u) batch[u] = element[(k + u) * a.ld];
#pragma unroll
        for (Index u = 0; u < kBatch; ++u) sum += batch[u] * shared_x[k + u];
      }
      for (; k < columns; ++k) sum += element[k * a.ld] * shared_x[k];
    }
    __syncthreads();
  }
  if (has_row) y[row] = sum;
}

}  // namespace

void add_shared_vector(Registry& registry) {
  registry.add<DenseByColumns>(
      {.name = "04_cuda_shared/shared_vector",
       .idea = "both: x by tiles in shared memory, 16 loads of the matrix in flight",
       .previous = "batched_loads"},
      []<class T>(const DenseView<const T>& a, const T* x, T* y, cudaStream_t stream) {
        launch(shared_vector<T>, {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = stream}, a,
               x, y);
      });
}

}  // namespace stages
