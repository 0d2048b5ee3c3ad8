// SpMV from CSR, a warp a row.
//
// The idea: the non-zeros of a row lie side by side, so let neighbouring threads take neighbouring non-zeros.
// All 32 lanes of a warp work on one row: lane l takes non-zeros l, l + 32, l + 64 and so on. The loads
// coalesce. In the end the 32 partial sums are added by shuffles, in a fixed order. This is the warp per row of
// textbooks, called CSR-vector.
//
// One small thing comes with it: blocks have 256 threads, here 8 rows. The next two files keep the 256.
//
// What is wrong with it: a row of 3 non-zeros leaves 29 lanes without work, and pays five shuffles all the
// same. 5_warp_per_row.cu gives such rows fewer lanes.
//
// Input: any CSR matrix of less than 2^31 non-zeros. Cost: as 3_thread_per_row.cu with coalesced loads; at
// least 32 lanes' work for each row, however short it is.
//
// Source: N. Bell and M. Garland, "Implementing sparse matrix-vector multiplication on throughput-oriented
// processors" (SC 2009).

#include "05_cuda_csr/csr_plan.hpp"
#include "05_cuda_csr/stage.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 256;

template <class T>
__global__ void full_warp_per_row(CsrView<T, LessonPtr> a, const T* x, T* y) {
  const Offset row = (Offset{blockIdx.x} * kBlock + threadIdx.x) / kWarp;
  const unsigned lane = threadIdx.x % kWarp;
  if (row >= a.rows) return;  // the whole warp leaves
  const LessonPtr end = a.row_ptr[row + 1];
  T sum = 0;
  for (LessonPtr p = a.row_ptr[row] + LessonPtr(lane); p < end; p += LessonPtr{kWarp}) {
    sum += a.values[p] * x[a.col_idx[p]];
  }
  for (unsigned d = kWarp / 2; d > 0; d /= 2) sum += __shfl_down_sync(kAllLanes, sum, d);
  if (lane == 0) y[row] = sum;
}

}  // namespace

void add_full_warp_per_row(Registry& registry) {
  registry.add<CsrSpmvPlan>(
      {.name = "05_cuda_csr/full_warp_per_row",
       .idea = "CSR, a warp per row: lanes read side by side, sums by shuffles",
       .previous = "thread_per_row"},
      []<class T>(const CsrView<T, LessonPtr>& a, const T* x, T* y, cudaStream_t stream) {
        launch(full_warp_per_row<T>,
               {.grid = blocks_for(a.rows, kBlock / kWarp), .block = kBlock, .stream = stream}, a, x, y);
      });
}

}  // namespace stages
