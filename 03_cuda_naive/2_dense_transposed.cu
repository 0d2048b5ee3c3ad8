// SpMV on the matrix written out in full, a thread a row, stored so that loads coalesce.
//
// The idea: keep the kernel of 1_dense_row_major.cu and turn the matrix. It is stored column by column, so at
// step j the 32 threads of a warp read 32 neighbouring numbers of column j: one load of 128 bytes, which are
// 4 sectors instead of 32, and all bytes are wanted. The hardware *coalesces* the 32 addresses into one
// request. Each thread still walks along its own row. All threads read the same x[j]: a broadcast, one
// sector.
//
// Input: any matrix whose dense form fits. Cost: as before, rows x cols multiplications and sizeof(T) x rows
// x cols bytes; now the bytes are read once, without help from a cache. What remains: there are only as many
// threads as rows, so n = 1024 leaves nine in ten SMs idle, and four fifths of the bytes are zeros.
//
// Source: the course project calls this form its naive step (125.08 ms for 1000 products of n = 1024 on a GTX
// 1080 Ti).

#include "03_cuda_naive/stage.hpp"
#include "common/gpu/frames.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;  ///< threads of a block

/// y = A x with element (i, j) of A at a.data[j * a.ld + i].
template <class T>
__global__ void dense_transposed(DenseView<const T> a, const T* x, T* y) {
  const Offset row = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (row >= a.rows) return;  // the last block may reach beyond the matrix
  T sum = 0;
  for (Index j = 0; j < a.cols; ++j) sum += a.data[j * a.ld + row] * x[j];
  y[row] = sum;
}

}  // namespace

void add_dense_transposed(Registry& registry) {
  registry.add<DenseByColumns>(
      {.name = "03_cuda_naive/dense_transposed",
       .idea = "the same stored column by column: neighbouring threads read neighbouring numbers",
       .previous = "dense_row_major"},
      []<class T>(const DenseView<const T>& a, const T* x, T* y, cudaStream_t stream) {
        launch(dense_transposed<T>, {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = stream},
               a, x, y);
      });
}

}  // namespace stages
