// SpMV on the matrix written out in full, with many loads in flight.
//
// The idea: take the kernel of 03_cuda_naive/2_dense_transposed.cu, without shared memory, and let a thread
// ask for 16 elements of the matrix before it uses the first. A load takes hundreds of clocks. With 16 loads
// *in flight* a thread waits 64 times for a row of 1024. Without any it would wait 1024 times; but it does not
// in 2_dense_transposed.cu, where nvcc unrolls the loop by four at least. So expect far less than 16 times the
// speed (README).
//
// The 16 values need registers. __launch_bounds__(kBlock, 1), new here, too, tells the compiler that one block
// an SM is enough, so that it may give each thread as many as it wants.
//
// The columns beyond the last full batch are done one by one.
//
// Input: any matrix whose dense form fits. Cost: as 03_cuda_naive/2_dense_transposed.cu.

#include "04_cuda_shared/stage.hpp"
#include "common/gpu/frames.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;  ///< threads of a block
constexpr Index kBatch = 16;      ///< loads of the matrix that a thread has in flight

/// y = A x with element (i, j) of A at a.data[j * a.ld + i].
template <class T>
__global__ void __launch_bounds__(kBlock, 1) batched_loads(DenseView<const T> a, const T* x, T* y) {
  const Offset row = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (row >= a.rows) return;
  T sum = 0;
  Index j = 0;
  for (; j <= a.cols - kBatch; j += kBatch) {
    T batch[kBatch];
#pragma unroll
    for (Index u = 0; u < kBatch; ++u) batch[u] = a.data[(j + u) * a.ld + row];
#pragma unroll
    for (Index u = 0; u < kBatch; ++u) sum += batch[u] * x[j + u];
  }
  for (; j < a.cols; ++j) sum += a.data[j * a.ld + row] * x[j];
  y[row] = sum;
}

}  // namespace

void add_batched_loads(Registry& registry) {
  registry.add<DenseByColumns>(
      {.name = "04_cuda_shared/batched_loads",
       .idea = "no shared memory: a thread asks for 16 elements before it uses one",
       .previous = "03_cuda_naive/dense_transposed"},
      []<class T>(const DenseView<const T>& a, const T* x, T* y, cudaStream_t stream) {
        launch(batched_loads<T>, {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = stream}, a,
               x, y);
      });
}

}  // namespace stages
