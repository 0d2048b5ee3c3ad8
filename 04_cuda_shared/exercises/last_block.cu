// Task: find the fault in the kernel, and mend it: y = A x with x by tiles in shared memory.
// Reference: 04_cuda_shared/shared_vector
// Speed: gen:fixed:n=4096,zeros=0.8
// At most: 200 requests in loads of x
// No race
//
// The kernel is nearly that of shared_vector. It is right wherever the rows fill their blocks; the last rows
// of other matrices come out wrong, and not always the same. It is the tail of step 3 in another guise: there
// the last rows had no threads, here the last block has threads without rows.
//
// Say before you run it: which elements of x does a block with 5 rows never see? And what does the language
// say of a barrier that some threads of a block never reach?

#include "micro/spmv.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;
constexpr Index kTile = 512;

template <class T>
__global__ void multiply(DenseView<const T> a, const T* x, T* y) {
  T* const tile = dynamic_shared<T>();  // kTile elements
  const unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
  const bool has_row = row < static_cast<unsigned>(a.rows);
  // SOLUTION
  // STUDENT
  if (!has_row) return;  // nothing to do here
  // END
  T sum = 0;
  for (Index first = 0; first < a.cols; first += kTile) {
    const Index columns = min(kTile, a.cols - first);
    for (Index k = static_cast<Index>(threadIdx.x); k < columns; k += kBlock) tile[k] = x[first + k];
    __syncthreads();
    if (has_row) {
#pragma unroll 16
      for (Index k = 0; k < columns; ++k) sum += a.data[(first + k) * a.ld + row] * tile[k];
    }
    __syncthreads();
  }
  if (has_row) y[row] = sum;
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmv<micro::ColumnsSpmv>(
      registry, {.name = "task/last_block", .idea = "x by tiles in shared memory"},
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
