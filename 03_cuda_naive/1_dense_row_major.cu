// SpMV on the matrix written out in full, a thread a row: the first kernel that anybody writes.
//
// The idea: rows are independent, so each gets a thread, which walks along its row. Zeros are stored and
// multiplied like everything else; there is no index to look up.
//
// The cost depends on the memory layout, which the kernel does not show. The 32 threads of a warp execute a
// load together, and here they read from 32 different rows: 32 addresses, a whole row apart. Memory is read
// in sectors of 32 bytes. So a load touches 32 sectors, and wants only 4 of the 32 bytes of each. The next
// seven steps of the loop want the rest, and find it in L1 as long as the cache still holds it.
// 2_dense_transposed.cu turns the matrix. 3_dense_padded.cu shows what else is wrong with these addresses.
//
// Input: any matrix whose dense form fits. Cost: rows x cols multiplications, sizeof(T) x rows x cols bytes.
//
// Source: ours. The course project on SpMV (80 % zeros, n = 256 and 1024) begins with the next file's form.

#include "03_cuda_naive/stage.hpp"
#include "common/gpu/frames.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;  ///< threads of a block

/// y = A x with element (i, j) of A at a.data[i * a.ld + j].
template <class T>
__global__ void dense_row_major(DenseView<const T> a, const T* x, T* y) {
  const Offset row = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (row >= a.rows) return;  // the last block may reach beyond the matrix
  T sum = 0;
  for (Index j = 0; j < a.cols; ++j) sum += a.data[row * a.ld + j] * x[j];
  y[row] = sum;
}

}  // namespace

void add_dense_row_major(Registry& registry) {
  registry.add<DenseByRows>(
      {.name = "03_cuda_naive/dense_row_major",
       .idea = "zeros stored, a thread a row, neighbours a row apart: loads do not coalesce"},
      []<class T>(const DenseView<const T>& a, const T* x, T* y, cudaStream_t stream) {
        launch(dense_row_major<T>, {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = stream}, a,
               x, y);
      });
}

}  // namespace stages
