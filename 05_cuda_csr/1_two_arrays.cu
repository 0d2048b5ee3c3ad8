// SpMV on the non-zeros alone: two arrays, row by row, a thread a row.
//
// The idea: drop the zeros. Of each non-zero its value and its column are kept. All rows have the same number
// w of non-zeros, so no row pointers are needed: row i begins at i * w in both arrays (two_arrays.hpp lays them
// out, and launches). Each thread walks along its row. The column says which element of x to take. These places
// are random, so the block copies x to shared memory first. From there a random read costs a few times as much
// as a regular one, where lanes meet in a bank. From the caches it would ask for up to 32 sectors, not four.
//
// What is wrong with it: neighbouring threads read w non-zeros apart, as in 03_cuda_naive/1_dense_row_major.cu.
// One load of a warp touches 32 sectors. 2_equal_rows.cu stores the same numbers in another order.
//
// Input: equally long rows, and an x that fits into shared memory; others are refused. Cost: nnz
// multiplications instead of rows x cols, (4 + sizeof(T)) x nnz bytes of the matrix: for floats at 80 % zeros
// two fifths of those of the dense form.
//
// Source: the course project's third GPU step (29.22 ms for 1000 products of n = 1024 on a GTX 1080 Ti). It
// finds row i "at a fixed interval", as here.

#include "05_cuda_csr/stage.hpp"
#include "05_cuda_csr/two_arrays.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = kTwoArraysBlock;

/// y = A x. Shared memory: `cols` elements, for x.
template <class T>
__global__ void two_arrays(TwoArrays<T> a, const T* x, T* y) {
  T* shared_x = dynamic_shared<T>();
  for (Index j = static_cast<Index>(threadIdx.x); j < a.cols; j += kBlock) shared_x[j] = x[j];
  __syncthreads();
  const unsigned row = blockIdx.x * kBlock + threadIdx.x;  // with 64 bits 15 % slower at n = 1024
  if (row >= static_cast<unsigned>(a.rows)) return;
  const Index* column = a.col_idx + Offset{row} * a.row_nnz;
  const T* value = a.values + Offset{row} * a.row_nnz;
  T sum = 0;
#pragma unroll 8
  for (Index k = 0; k < a.row_nnz; ++k) sum += value[k] * shared_x[column[k]];
  y[row] = sum;
}

}  // namespace

void add_two_arrays(Registry& registry) {
  add_on_two_arrays<Layout::row_major>(
      registry,
      {.name = "05_cuda_csr/two_arrays",
       .idea = "D2: only the non-zeros, in two arrays row by row; x in shared memory",
       .previous = "04_cuda_shared/shared_vector"},
      []<class T>() { return two_arrays<T>; });
}

}  // namespace stages
