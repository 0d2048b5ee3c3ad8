// Task: fill in the tail of the grid: the last rows, and the threads that have no row.
// Step: 03_cuda_naive
// Reference: 03_cuda_naive/dense_transposed
// At least: 31 lanes a request in accesses
// At most: 31.8 lanes a request in accesses
//
// A grid consists of whole blocks. Few matrices have a number of rows that is a multiple of the block. So the
// last block is there for the rows that are left over, and some of its threads have no row: they must neither
// read nor write. Both are yours: the number of blocks, and what such a thread does. No block is without rows:
// 640 rows are 20 blocks of 32 threads. Counted are 600 rows, which are 18 whole warps and one of 24 threads
// that read and write: 31.6 in the mean.
//
//   70 rows, blocks of 32
//   block 0          block 1          block 2
//   0 ........ 31    32 ....... 63    64 .. 69 | 70 .. 95
//   rows             rows             rows     | no rows: y[70] is not yours to write
//
// Hint: 70 / 32 is 2 in whole numbers. How many blocks do you want for 64 rows, for 65, for 96?
// Hint: Round up: add one less than a block before you divide. In the kernel compare the row with a.rows.
// Hint: (rows + kBlock - 1) / kBlock for the grid, and `if (row >= ...) return;` in the kernel.

#include "common/matrix/error.hpp"
#include "micro/spmv.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 32;

unsigned blocks_of(unsigned rows) {
  // SOLUTION
  return (rows + kBlock - 1) / kBlock;
  // STUDENT
  // Your code. Until then the rows that fill no whole block have none.
  return rows / kBlock;
  // END
}

/// y = A x with element (i, j) of A at a.data[j * a.ld + i].
template <class T>
__global__ void multiply(DenseView<const T> a, const T* x, T* y) {
  const unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
  // SOLUTION
  if (row >= static_cast<unsigned>(a.rows)) return;
  // STUDENT
  // Your code: what a thread does that has no row.
  // END
  T sum = 0;
  for (Index j = 0; j < a.cols; ++j) sum += a.data[j * a.ld + row] * x[j];
  y[row] = sum;
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmv<micro::ColumnsSpmv>(
      registry, {.name = "micro/tail", .idea = "the last block has threads without rows"},
      []<class T>(const DenseView<const T>& a, const T* x, T* y, cudaStream_t stream) {
        const unsigned rows = static_cast<unsigned>(a.rows), blocks = blocks_of(rows);
        if (blocks * kBlock >= rows + kBlock)
          fail("{} rows have {} blocks, and the last has none of them", rows, blocks);
        launch(multiply<T>, {.grid = blocks, .block = kBlock, .stream = stream}, a, x, y);
      });
}

}  // namespace stages
