// One launch for all products, and the lanes of a sub-warp keep a row together.
//
// The idea: 2_row_in_registers.cu ends where a row does not fit into the 255 registers of a thread. So several
// neighbouring lanes share a row: lane l keeps non-zeros l, l + lanes, l + 2 lanes and so on, at most 64 of
// them. Each has a part of the row's sum, and shuffles add the parts (lanes.hpp). A row gets the fewest lanes
// that hold it (lanes_plan.hpp), a power of two up to 32: at 80 % zeros one lane up to n = 320, two up to 640,
// four up to 1280. Rows of up to 2048 non-zeros do not spill.
//
// Where a row has one lane, it is kept as in rung 2, and only the numbers of rows have 64 bits, not 32. Where
// it has four, the matrix has four times the blocks, and a lane a quarter of the work.
//
// What remains: n = 1024 takes 32 blocks, so 100 of 132 SMs are idle. 4_matrix_copies.cu has work for them.
//
// Requires: rows of at most 2048 non-zeros, x in a block's shared memory, independent vectors.

#include "06_cuda_register/lanes_plan.hpp"

namespace stages {
namespace {

constexpr int kBlock = 128;

template <class T, int kWidth>
__global__ void __launch_bounds__(kBlock)
    row_per_sub_warp(CsrView<T, std::int32_t> a, const T* x, T* y, int products, int lanes) {
  T* const xs = dynamic_shared<T>();  // x, and a zero behind it for the padding of short rows
  const Offset thread = Offset{blockIdx.x} * kBlock + threadIdx.x;
  const Offset row = thread / lanes;
  const int lane = static_cast<int>(thread % lanes);
  T value[kWidth];
  int column[kWidth];
  const std::int32_t begin = row < a.rows ? a.row_ptr[row] : 0, end = row < a.rows ? a.row_ptr[row + 1] : 0;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    const int entry = k * lanes + lane;
    const bool there = entry < end - begin;
    value[k] = there ? a.values[begin + entry] : T{0};
    column[k] = there ? a.col_idx[begin + entry] : a.cols;
  }
  if (threadIdx.x == 0) xs[a.cols] = T{0};

  for (int j = 0; j < products; ++j) {
    __syncthreads();  // the product before is done with xs
    for (int c = static_cast<int>(threadIdx.x); c < a.cols; c += kBlock) xs[c] = x[Offset{j} * a.cols + c];
    __syncthreads();
    T sum = 0;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sum += value[k] * xs[column[k]];
    sum = sum_over_lanes(sum, lanes);
    if (row < a.rows && lane == 0) y[Offset{j} * a.rows + row] = sum;
  }
}

}  // namespace

void add_row_per_sub_warp(Registry& registry) {
  add_lanes<kBlock, Copies::one>(registry,
                                 {.name = "06_cuda_register/row_per_sub_warp",
                                  .idea = "up to 32 lanes keep a row in registers: no cliff",
                                  .previous = "row_per_thread"},
                                 []<class T, int kWidth>() { return row_per_sub_warp<T, kWidth>; });
}

}  // namespace stages
