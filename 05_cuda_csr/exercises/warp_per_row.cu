// Task: fill in the kernel: y = A x in CSR with a warp per row.
// Reference: 05_cuda_csr/full_warp_per_row
// Speed: gen:fixed:n=4096,zeros=0.98
// At most: 700 requests in loads of values
// At most: 2.3 sectors a request in loads of values
//
// Lane l of the warp takes the non-zeros l, l + 32, l + 64 and so on of its row, so that neighbouring lanes
// read neighbouring non-zeros; then the 32 partial sums become one by shuffles, and lane 0 stores it.
//
//   __shfl_down_sync(kAllLanes, v, d) gives a lane the v of the lane d places further on
//
// Of a warp that has a row, all 32 lanes must come to each shuffle.
//
// Before you write: on a matrix with 3 non-zeros in each row, how many of the 32 lanes do anything?

#include "micro/spmv.hpp"

namespace stages {
namespace {

using micro::DeviceRows, micro::kAllLanes, micro::kWarp;
constexpr unsigned kBlock = 256;

template <class T>
__global__ void multiply(DeviceRows<T> a, const T* x, T* y) {
  const unsigned row = (blockIdx.x * kBlock + threadIdx.x) / kWarp;
  const unsigned lane = threadIdx.x % kWarp;
  // SOLUTION
  const bool has_row = row < static_cast<unsigned>(a.rows);
  const std::int32_t begin = has_row ? a.row_ptr[row] : 0, end = has_row ? a.row_ptr[row + 1] : 0;
  T sum = 0;
  for (std::int32_t p = begin + static_cast<std::int32_t>(lane); p < end; p += 32)
    sum += a.values[p] * x[a.col_idx[p]];
  for (unsigned d = kWarp / 2; d > 0; d /= 2) sum += __shfl_down_sync(kAllLanes, sum, d);
  if (has_row && lane == 0) y[row] = sum;
  // STUDENT
  // Your code. Until then lane 0 takes the first non-zero of its row and no other.
  if (row < static_cast<unsigned>(a.rows) && lane == 0) {
    const std::int32_t p = a.row_ptr[row];
    y[row] = p < a.row_ptr[row + 1] ? a.values[p] * x[a.col_idx[p]] : T{0};
  }
  // END
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmv<micro::CsrSpmv>(
      registry, {.name = "task/warp_per_row", .idea = "a warp per row"},
      []<class T>(const DeviceRows<T>& a, const T* x, T* y, cudaStream_t stream) {
        launch(multiply<T>, {.grid = blocks_for(a.rows, kBlock / kWarp), .block = kBlock, .stream = stream},
               a, x, y);
      });
}

}  // namespace stages
