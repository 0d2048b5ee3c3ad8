// Task: fill in the sum over a warp: 32 partial sums become one, by shuffles.
// Step: 05_cuda_csr
// Reference: 05_cuda_csr/full_warp_per_row
// At most: 0 requests in shared accesses
// At most: 3,100 barriers
// At least: 8 lanes a request in loads of values
//
// A warp has a row, and each lane a partial sum in a register. A shuffle gives a lane what another lane holds,
// without any memory: __shfl_down_sync(kAllLanes, v, d) is the v of the lane d places further on. Half of the
// distance each time, and after five steps lane 0 has the sum of all. A shuffle counts as a barrier, because
// all lanes come to it: 600 rows take 3,000. These rows have 10 non-zeros, which 10 lanes load side by side.
//
//   lane     0   1   2   3   4   5   6   7          (8 lanes here; a warp has 32)
//   d = 4    0+4 1+5 2+6 3+7  .   .   .   .         what the others hold is of no use any more
//   d = 2    +2  +3   .   .
//   d = 1    +1   .
//
// Hint: How many lanes hold something that is still needed after the first step?
// Hint: A loop over the distances 16, 8, 4, 2, 1. In each of its steps every lane adds what it gets.
// Hint: for (unsigned d = 16; d > 0; d /= 2) sum += __shfl_down_sync(...);

#include "micro/spmv.hpp"

namespace stages {
namespace {

using micro::DeviceRows, micro::kAllLanes, micro::kWarp;
constexpr unsigned kBlock = 128;

/// The sum over a warp, in lane 0. All lanes come.
template <class T>
__device__ T sum_of_all(T sum) {
  // SOLUTION
  for (unsigned d = kWarp / 2; d > 0; d /= 2) sum += __shfl_down_sync(kAllLanes, sum, d);
  // STUDENT
  // Your code. Until then lane 0 has its own sum and no other.
  // END
  return sum;
}

template <class T>
__global__ void multiply(DeviceRows<T> a, const T* x, T* y) {
  const unsigned row = (blockIdx.x * kBlock + threadIdx.x) / kWarp, lane = threadIdx.x % kWarp;
  if (row >= static_cast<unsigned>(a.rows)) return;  // all lanes of the warp, or none
  T sum = 0;
  for (std::int32_t p = a.row_ptr[row] + static_cast<std::int32_t>(lane); p < a.row_ptr[row + 1]; p += 32)
    sum += a.values[p] * x[a.col_idx[p]];
  sum = sum_of_all(sum);
  if (lane == 0) y[row] = sum;
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmv<micro::CsrSpmv>(
      registry, {.name = "micro/shuffle_reduction", .idea = "32 sums become one"},
      []<class T>(const micro::DeviceRows<T>& a, const T* x, T* y, cudaStream_t stream) {
        launch(multiply<T>, {.grid = blocks_for(a.rows, kBlock / kWarp), .block = kBlock, .stream = stream},
               a, x, y);
      });
}

}  // namespace stages
