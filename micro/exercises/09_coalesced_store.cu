// Task: fill in which element of C a thread has, so that a warp stores side by side.
// Step: 03_cuda_naive
// Reference: 03_cuda_naive/dense_output_by_rows
// At most: 4.5 sectors a request in stores
// At least: 28 lanes a request in stores
//
// A thread has one element of a dense C, in blocks of 32 x 8 threads. The 32 threads of a warp have the same
// threadIdx.y, and threadIdx.x from 0 to 31. C is stored by rows: element (i, j) lies at c.data[i * c.ld + j].
// Memory is written in sectors of 32 bytes. Which of i and j goes with threadIdx.x decides how many sectors
// a warp's store (a request) touches. Each thread stores its element: 32 in a request, and fewer only at the
// end of a row.
//
//   threadIdx.x along a row of C              threadIdx.x along a column of C
//   C  . . . . . . . . .                      C  . . 0 . . . . . .
//      . 0 1 2 3 4 5 ... 31                      . . 1 . . . . . .      each number in a sector
//      . . . . . . . . .                         . . 2 . . . . . .      of its own
//      32 floats side by side: 4 sectors                             32 sectors
//
// Hint: Two threads of a warp differ in threadIdx.x only. Should they differ in i or in j?
// Hint: j, the column, is the index that moves by one element in memory.
// Hint: j = blockIdx.x * kWide + threadIdx.x, and i likewise from the y's and kHigh. Leave if i or j is
//   beyond C.

#include "03_cuda_naive/dense_output.hpp"

namespace stages {
namespace {

constexpr unsigned kWide = 32, kHigh = 8;  ///< threads of a block in x and y; blocks in x go along a row of C

template <class T>
__global__ void multiply(CsrView<T> a, CscView<T> b, DenseView<T> c) {
  // SOLUTION
  const Offset i = Offset{blockIdx.y} * kHigh + threadIdx.y;
  const Offset j = Offset{blockIdx.x} * kWide + threadIdx.x;
  if (i >= c.rows || j >= c.cols) return;
  // STUDENT
  // Your code. Until then there is one row: the first.
  const Offset i = 0;
  const Offset j = Offset{blockIdx.x} * kWide + threadIdx.x;
  if (blockIdx.y > 0 || threadIdx.y > 0 || i >= c.rows || j >= c.cols) return;
  // END
  c.data[i * c.ld + j] = sparse_dot(a, b, static_cast<Index>(i), static_cast<Index>(j));
}

}  // namespace

void add_task(Registry& registry) {
  registry.add<DenseOutputPlan>({.name = "micro/coalesced_store",
                                 .idea = "threadIdx.x along a row of C",
                                 .claims = {.drops_exact_zeros = true}},
                                []<class T>(CsrView<T> a, CscView<T> b, DenseView<T> c, cudaStream_t stream) {
                                  launch(multiply<T>,
                                         {.grid = {blocks_for(c.cols, kWide), blocks_for(c.rows, kHigh)},
                                          .block = {kWide, kHigh},
                                          .stream = stream},
                                         a, b, c);
                                });
}

}  // namespace stages
