// One launch for all products, and the chip holds the matrix several times.
//
// The idea: in 3_row_per_sub_warp.cu a matrix of n = 1024 with 80 % zeros takes 32 of 132 SMs. The vectors do
// not depend on each other. So the blocks that hold the matrix, a *copy* of it, are started as often as the
// chip holds them, and of c copies each takes every c-th vector. The smaller the matrix, the more copies there
// are. They are the grid's second dimension. In the kernel only the loop over products changes.
//
// A second change, small beside the first: a block has 256 threads, as in all rungs from here on. Each block
// fetches all of x. While most SMs are idle, small blocks spread the work over more of them. Now all are busy,
// and at n = 1024 blocks of 128 would fetch x from L2 32 times a product; these do it 16 times.
//
// What remains: each non-zero reads one element of x from shared memory for each product, and shared memory
// gives an SM 128 bytes a clock. 5_vector_batches.cu gets more out of a read.
//
// Requires: as 3_row_per_sub_warp.cu. A matrix that the chip does not hold once is multiplied all the same: its
// blocks do not wait for each other.

#include "06_cuda_register/lanes_plan.hpp"

namespace stages {
namespace {

constexpr int kBlock = 256;

template <class T, int kWidth>
__global__ void __launch_bounds__(kBlock)
    matrix_copies(CsrView<T, std::int32_t> a, const T* x, T* y, int products, int lanes) {
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

  const int copy = static_cast<int>(blockIdx.y), copies = static_cast<int>(gridDim.y);
  for (int j = copy; j < products; j += copies) {
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

void add_matrix_copies(Registry& registry) {
  add_lanes<kBlock, Copies::all_that_fit>(
      registry,
      {.name = "06_cuda_register/matrix_copies",
       .idea = "the chip holds the matrix several times, and each copy takes its part of the vectors",
       .previous = "row_per_sub_warp"},
      []<class T, int kWidth>() { return matrix_copies<T, kWidth>; });
}

}  // namespace stages
