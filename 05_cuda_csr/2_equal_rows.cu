// SpMV on two arrays with the k-th non-zeros of all rows side by side: ELLPACK.
//
// The idea: the kernel of 1_two_arrays.cu, and only the order of the numbers changes. Non-zero k of row i lies
// at k * rows + i. At step k the 32 threads of a warp read 32 neighbouring columns and 32 neighbouring
// values: the loads coalesce. The field calls this form ELLPACK. It also pads shorter rows with zeros, which
// is not needed here.
//
// Input: equally long rows, and an x that fits into shared memory; others are refused. Cost: as
// 1_two_arrays.cu, (4 + sizeof(T)) x nnz bytes, each of them read once without help from a cache.
//
// Source: J. R. Rice and R. F. Boisvert, "Solving Elliptic Problems Using ELLPACK" (Springer, 1985); on GPUs
// N. Bell and M. Garland (SC 2009).

#include "05_cuda_csr/stage.hpp"
#include "05_cuda_csr/two_arrays.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = kTwoArraysBlock;

/// y = A x. Shared memory: `cols` elements, for x.
template <class T>
__global__ void equal_rows(TwoArrays<T> a, const T* x, T* y) {
  T* shared_x = dynamic_shared<T>();
  for (Index j = static_cast<Index>(threadIdx.x); j < a.cols; j += kBlock) shared_x[j] = x[j];
  __syncthreads();
  const Offset row = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (row >= a.rows) return;
  const Index* column = a.col_idx + row;
  const T* value = a.values + row;
  T sum = 0;
#pragma unroll 8
  for (Index k = 0; k < a.row_nnz; ++k)
    sum += value[Offset{k} * a.rows] * shared_x[column[Offset{k} * a.rows]];
  y[row] = sum;
}

}  // namespace

void add_equal_rows(Registry& registry) {
  add_on_two_arrays<Layout::col_major>(
      registry,
      {.name = "05_cuda_csr/equal_rows",
       .idea = "ELLPACK: the k-th entries of all rows side by side, so that loads coalesce",
       .previous = "two_arrays"},
      []<class T>() { return equal_rows<T>; });
}

}  // namespace stages
