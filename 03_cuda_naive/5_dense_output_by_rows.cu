// SpGEMM into a dense C, a thread an element, threadIdx.x along a row of C.
//
// The idea: 4_dense_output_strided.cu with x and y exchanged. threadIdx.x now counts columns of C, so the
// stores of 16 neighbouring threads lie side by side: a warp's store touches 4 sectors instead of 16.
//
// Does it pay? Not on the course project's pair, on an H100: there this kernel takes six times as long. A
// thread has one store, and up to two hundred steps, so the steps decide. 16 neighbouring threads now walk
// along one row of A and 16 different columns of B. In that B only every 16th column has non-zeros: two lanes
// of a warp work, and 30 wait. In rung 4 a warp has two neighbouring columns of B: 16 of its lanes have work,
// or none, and then the warp is done at once.
//
// Input and cost: as 4_dense_output_strided.cu.

#include "03_cuda_naive/dense_output.hpp"
#include "03_cuda_naive/stage.hpp"

namespace stages {
namespace {

template <class T>
__global__ void dense_output_by_rows(CsrView<T> a, CscView<T> b, DenseView<T> c) {
  const Offset i = Offset{blockIdx.y} * kTile + threadIdx.y;
  const Offset j = Offset{blockIdx.x} * kTile + threadIdx.x;
  if (i >= c.rows || j >= c.cols) return;  // the last blocks reach beyond C
  c.data[i * c.ld + j] = sparse_dot(a, b, static_cast<Index>(i), static_cast<Index>(j));
}

}  // namespace

void add_dense_output_by_rows(Registry& registry) {
  registry.add<DenseOutputPlan>(
      {.name = "03_cuda_naive/dense_output_by_rows",
       .idea = "a thread an element of a dense C, neighbours in a row; compaction on the host",
       .previous = "dense_output_strided",
       .claims = {.drops_exact_zeros = true}},
      []<class T>(CsrView<T> a, CscView<T> b, DenseView<T> c, cudaStream_t stream) {
        launch(dense_output_by_rows<T>,
               {.grid = {blocks_for(c.cols, kTile), blocks_for(c.rows, kTile)},
                .block = {kTile, kTile},
                .stream = stream},
               a, b, c);
      });
}

}  // namespace stages
