// SpMV on the matrix written out in full: x in shared memory, and each row shared by many threads.
//
// The idea: with a thread a row, n = 1024 makes 8 blocks of 128 threads, and most SMs of the chip have no
// work. More loads must be in flight, so more threads must load. A block takes 32 rows, and 32 threads work
// on each row. Lane l of every warp works on row l, so that neighbouring threads still read neighbouring
// numbers. Warp w takes columns w, w + 32, w + 64 and so on. In the end each row has 32 partial sums. They
// meet in a table in shared memory, and warp w adds up row w with shuffles. The table has a column more than
// needed, for the stores: a warp stores down a column of the table, and with rows of 33 floats these 32 lie
// in 32 different banks. (It reads along a row, which needs no gap.) The order of the additions is fixed.
//
// n = 1024 now makes 32 blocks: 32 of an H100's 132 SMs have work, and 32 times as many loads are in flight.
//
// Input: any matrix whose dense form fits. Cost: as 3_shared_vector.cu; x is read for each 32 rows, not 128.

#include "04_cuda_shared/stage.hpp"
#include "common/gpu/frames.hpp"

namespace stages {
namespace {

constexpr int kRows = 32;   ///< rows of a block: one for each lane
constexpr int kWarps = 32;  ///< threads of a row: one in each warp
constexpr int kBlock = kRows * kWarps;
constexpr Index kTile = 4096;  ///< elements of x in shared memory
constexpr Index kBatch = 16;   ///< loads of the matrix that a thread has in flight

/// y = A x with element (i, j) of A at a.data[j * a.ld + i].
template <class T>
__global__ void __launch_bounds__(kBlock, 1) shared_vector_and_row(DenseView<const T> a, const T* x, T* y) {
  __shared__ T shared_x[kTile];
  __shared__ T partial[kRows][kWarps + 1];
  const Index lane = threadIdx.x % kRows, warp = threadIdx.x / kRows;
  const Offset row = Offset{blockIdx.x} * kRows + lane;
  T sum = 0;
  for (Index first = 0; first < a.cols; first += kTile) {
    const Index columns = min(kTile, a.cols - first);
    for (Offset k = threadIdx.x; k < columns; k += kBlock) shared_x[k] = x[first + k];
    __syncthreads();
    if (row < a.rows) {
      const T* element = a.data + first * a.ld + row;
      Index k = warp;
      for (; k + (kBatch - 1) * kWarps < columns; k += kBatch * kWarps) {
        T batch[kBatch];
#pragma unroll
        for (Index u = 0; u < kBatch; ++u) batch[u] = element[(k + u * kWarps) * a.ld];
#pragma unroll
        for (Index u = 0; u < kBatch; ++u) sum += batch[u] * shared_x[k + u * kWarps];
      }
      for (; k < columns; k += kWarps) sum += element[k * a.ld] * shared_x[k];
    }
    __syncthreads();
  }
  partial[lane][warp] = sum;
  __syncthreads();
  // Now warp w adds up row w: its lane l takes the partial sum that warp l found there.
  T total = partial[warp][lane];
  for (int d = 16; d > 0; d /= 2) total += __shfl_down_sync(kAllLanes, total, d);
  const Offset my_row = Offset{blockIdx.x} * kRows + warp;
  if (lane == 0 && my_row < a.rows) y[my_row] = total;
}

}  // namespace

void add_shared_vector_and_row(Registry& registry) {
  registry.add<DenseByColumns>(
      {.name = "04_cuda_shared/shared_vector_and_row",
       .idea = "32 threads a row beside x in shared memory: 32 times as many loads in flight",
       .previous = "shared_vector"},
      []<class T>(const DenseView<const T>& a, const T* x, T* y, cudaStream_t stream) {
        launch(shared_vector_and_row<T>,
               {.grid = blocks_for(a.rows, kRows), .block = kBlock, .stream = stream}, a, x, y);
      });
}

}  // namespace stages
