// SpMV on the matrix written out in full, a thread a row, row by row with a gap after each row.
//
// The idea: the kernel is that of 1_dense_row_major.cu; only the leading dimension `ld` changes, the distance
// between the first elements of two rows. There it is the row length, here it is odd: one element more where
// the row length is even, and nobody reads that element.
//
// A warp's load touches 32 sectors, as before, and still this is much faster where n is a multiple of 32. So
// this rung tells two costs apart that 2_dense_transposed.cu removed together: many sectors a request, and a
// stride that is a multiple of a power of two. Compare all three at n = 1023, 1024 and 1025.
//
// Why does the stride matter? L1 serves a load in passes over its data, and ncu counts them (measured.md): 32
// for a load of the matrix at n = 1024, about 9 with the gap. It is as if L1 had 32 banks of 4 bytes, as
// shared memory has. Addresses n floats apart fall into 32 / gcd(n, 32) different banks: into all if n is odd,
// and into a single one if n is a multiple of 32. Addresses in one bank are served one after another: a *bank
// conflict*.
//
// Input: any matrix whose dense form fits. Cost: as 1_dense_row_major.cu, with up to one element a row more.

#include "03_cuda_naive/stage.hpp"
#include "common/gpu/frames.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;  ///< threads of a block

/// y = A x with element (i, j) of A at a.data[i * a.ld + j].
template <class T>
__global__ void dense_padded(DenseView<const T> a, const T* x, T* y) {
  const Offset row = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (row >= a.rows) return;  // the last block may reach beyond the matrix
  T sum = 0;
  for (Index j = 0; j < a.cols; ++j) sum += a.data[row * a.ld + j] * x[j];
  y[row] = sum;
}

template <class T>
using PaddedRows = DenseFrame<T, Layout::row_major, Ld::odd>;

}  // namespace

void add_dense_padded(Registry& registry) {
  registry.add<PaddedRows>({.name = "03_cuda_naive/dense_padded",
                            .idea = "row by row again, rows an odd number of elements apart",
                            .previous = "dense_row_major"},
                           []<class T>(const DenseView<const T>& a, const T* x, T* y, cudaStream_t stream) {
                             launch(dense_padded<T>,
                                    {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = stream},
                                    a, x, y);
                           });
}

}  // namespace stages
