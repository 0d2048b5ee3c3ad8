// SpMV from CSR, a thread a row.
//
// The idea: drop the zeros of 03_cuda_naive/1_dense_row_major.cu, from rows of any length. The non-zeros of all
// rows stand one behind another, each with its column, and row pointers say where a row lies: row i begins at
// row_ptr[i] and ends before row_ptr[i + 1]. The rest is as there: a thread walks along its row, and reads x
// through the caches. (1_two_arrays.cu needs no row pointers, as its rows are equally long, and copies x.)
//
// It goes wrong twice, and both are the reason for the next files. Neighbouring threads read a row apart, so
// loads do not coalesce. And a warp is done when its longest row is: on a matrix with one row of 100,000
// non-zeros, one thread is busy long after all others have finished.
//
// Input: any CSR matrix of less than 2^31 non-zeros. Cost: (4 + sizeof(T)) x nnz bytes and the row pointers;
// the time of the longest row, with one memory latency for each few non-zeros.

#include "05_cuda_csr/csr_plan.hpp"
#include "05_cuda_csr/stage.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;

template <class T>
__global__ void thread_per_row(CsrView<T, LessonPtr> a, const T* x, T* y) {
  const Offset row = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (row >= a.rows) return;
  const LessonPtr end = a.row_ptr[row + 1];
  T sum = 0;
  for (LessonPtr p = a.row_ptr[row]; p < end; ++p) sum += a.values[p] * x[a.col_idx[p]];
  y[row] = sum;
}

}  // namespace

void add_thread_per_row(Registry& registry) {
  registry.add<CsrSpmvPlan>(
      {.name = "05_cuda_csr/thread_per_row",
       .idea = "CSR: row pointers, rows of any length; a thread per row, neighbours read far from each other",
       .previous = "03_cuda_naive/dense_row_major"},
      []<class T>(const CsrView<T, LessonPtr>& a, const T* x, T* y, cudaStream_t stream) {
        launch(thread_per_row<T>, {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = stream}, a,
               x, y);
      });
}

}  // namespace stages
