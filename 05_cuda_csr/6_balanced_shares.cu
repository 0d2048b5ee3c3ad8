// SpMV from CSR, equal shares of the non-zeros, wherever rows begin and end.
//
// The idea: in 5_warp_per_row.cu a row is the unit of work, so the longest row decides. Here the unit is a
// share of 256 non-zeros, one for each warp, and its first row is found by binary search. The lanes multiply
// the share side by side, and leave the products in shared memory: which row they belong to does not matter
// yet. Then lane l adds up the row number l, l + 32, ... of those that have non-zeros in the share. A row that
// lies in several shares gets a sum from each, by atomicAdd, so y is set to zero before.
//
//   share              0                 1                  2
//   non-zeros          0 ........... 255 256 .......... 511 512 ...
//   rows of 200, 400   row 0    | row 1 ........................... | row 2
//   y                  y[0] =   y[1] +=  y[1] +=            y[1] +=   y[2] = ...
//
// What is wrong with it: where rows are long, one or two lanes add up 256 products while the others have
// nothing to do. A row in three shares or more is rounded in the order in which they arrive, so the entry does
// not promise the same bits in each run. fast/balanced.cu does without either: it sums by segments, and adds
// the partial sums of a long row in a fixed order. And rows without non-zeros are not counted as work: a share
// in which a million of them lie keeps its warp busy. (A *merge path* counts rows, too.)
//
// Input: any CSR matrix of less than 2^31 non-zeros. Cost: the bytes of 4_full_warp_per_row.cu, y once more,
// and log2(rows) loads a warp for the search.
//
// Sources: equal shares, D. Merrill and M. Garland, "Merge-based parallel sparse matrix-vector multiplication"
// (SC 2016); rows summed from shared memory, CSR-Stream of J. L. Greathouse and M. Daga (SC 2014).

#include "05_cuda_csr/csr_plan.hpp"
#include "05_cuda_csr/stage.hpp"

namespace stages {
namespace {

constexpr unsigned kWarps = 8;    ///< of a block
constexpr unsigned kShare = 256;  ///< non-zeros of a warp

/// The row in which non-zero p lies.
template <class T>
__device__ Index row_of(const CsrView<T, LessonPtr>& a, LessonPtr p) {
  Index low = 0, high = a.rows;  // row_ptr[low] <= p < row_ptr[high]
  while (high - low > 1) {
    const Index middle = low + (high - low) / 2;
    (a.row_ptr[middle] <= p ? low : high) = middle;
  }
  return low;
}

template <class T>
__global__ void balanced_shares(CsrView<T, LessonPtr> a, const T* x, T* y) {
  __shared__ T all_products[kWarps][kShare];
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const Offset share = Offset{blockIdx.x} * kWarps + warp;
  const LessonPtr nnz = a.row_ptr[a.rows];
  if (share * kShare >= nnz) return;  // the whole warp leaves
  const LessonPtr begin = LessonPtr(share * kShare), end = begin + min(LessonPtr{kShare}, nnz - begin);
  T* products = all_products[warp];
#pragma unroll 8  // a whole share: its loads are under way together
  for (LessonPtr p = begin + LessonPtr(lane); p < end; p += LessonPtr{kWarp}) {
    products[p - begin] = a.values[p] * x[a.col_idx[p]];
  }
  __syncwarp();
  for (Index row = row_of(a, begin) + Index(lane); row < a.rows && a.row_ptr[row] < end; row += kWarp) {
    const LessonPtr first = a.row_ptr[row], last = a.row_ptr[row + 1];
    T sum = 0;
    for (LessonPtr p = max(begin, first); p < min(end, last); ++p) sum += products[p - begin];
    if (first >= begin && last <= end) {
      y[row] = sum;
    } else {
      atomicAdd(&y[row], sum);
    }
  }
}

template <class T>
class BalancedShares final : public CsrSpmvPlan<T> {
  using CsrSpmvPlan<T>::CsrSpmvPlan;
  void multiply(const CsrView<T, LessonPtr>& a, const T* x, T* y, cudaStream_t stream) override {
    STAGES_CUDA(cudaMemsetAsync(y, 0, static_cast<std::size_t>(a.rows) * sizeof(T), stream));
    launch(balanced_shares<T>,
           {.grid = blocks_for(this->a().nnz(), kWarps * kShare), .block = kWarps * kWarp, .stream = stream},
           a, x, y);
  }
};

}  // namespace

void add_balanced_shares(Registry& registry) {
  registry.add<BalancedShares>(
      {.name = "05_cuda_csr/balanced_shares",
       .idea =
           "256 non-zeros per warp, whatever the rows; what a row has in several shares meets by atomicAdd",
       .previous = "warp_per_row",
       .claims = {.bitwise_reproducible = false}});
}

}  // namespace stages
