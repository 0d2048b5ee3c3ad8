// SpGEMM into a dense C, a thread an element, threadIdx.x along a column of C: a wrong turn.
//
// The idea: no element of C depends on another, so each gets a thread, in blocks of 16 x 16. C(i, j) is the
// sparse dot product of A's row i (from CSR) and B's column j (from CSC). C is written out in full on the
// device, copied to the host, and made into CSR there by a loop that looks for elements other than zero.
//
// This is the form of the course project: threadIdx.x counts *rows* of C. C is stored row by row, so the
// stores of 16 neighbouring threads lie a row of C apart. A warp is two such groups, in two neighbouring
// columns: its store touches 16 sectors, where 4 would do for two groups of 16 neighbours in a row. The
// result is right. The report called these stores contiguous. 5_dense_output_by_rows.cu exchanges x and y.
//
// Input: any CSR matrices whose dense C fits on the host and on the device. Elements that cancel to zero are
// left out of C, because only the value says what belongs to it. Cost: each row of A is walked for each
// column of B and the other way round: at most nnz(A) x columns + nnz(B) x rows steps, whether anything meets
// or not (a walk ends where the shorter list does), and m x n elements. Step 1's Gustavson needs one a product.
//
// Source: the CUDA form of a course project on sparse x sparse products, with its wrong results mended.

#include "03_cuda_naive/dense_output.hpp"
#include "03_cuda_naive/stage.hpp"

namespace stages {
namespace {

template <class T>
__global__ void dense_output_strided(CsrView<T> a, CscView<T> b, DenseView<T> c) {
  const Offset i = Offset{blockIdx.x} * kTile + threadIdx.x;
  const Offset j = Offset{blockIdx.y} * kTile + threadIdx.y;
  if (i >= c.rows || j >= c.cols) return;  // the last blocks reach beyond C
  c.data[i * c.ld + j] = sparse_dot(a, b, static_cast<Index>(i), static_cast<Index>(j));
}

}  // namespace

void add_dense_output_strided(Registry& registry) {
  registry.add<DenseOutputPlan>(
      {.name = "03_cuda_naive/dense_output_strided",
       .idea =
           "a wrong turn: a thread an element of a dense C, neighbours in a column; compaction on the host",
       .claims = {.drops_exact_zeros = true}},
      []<class T>(CsrView<T> a, CscView<T> b, DenseView<T> c, cudaStream_t stream) {
        launch(dense_output_strided<T>,
               {.grid = {blocks_for(c.rows, kTile), blocks_for(c.cols, kTile)},
                .block = {kTile, kTile},
                .stream = stream},
               a, b, c);
      });
}

}  // namespace stages
