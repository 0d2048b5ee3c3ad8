// One launch for all products, several vectors at a time.
//
// The idea: in 4_matrix_copies.cu a non-zero reads one element of x, 4 bytes, for one product. Here x lies in
// shared memory in *batches* of 16 bytes (lanes.hpp): the same element of 4 vectors (of doubles, of 2), side by
// side. A lane reads a batch by one instruction, and multiplies it by one value from its registers: 4 products
// for one read and one column. The barriers, too, come once for 4 vectors.
//
// A read of 16 bytes by 32 lanes is up to 512 bytes, so where all lanes want different batches the least that
// it takes is four wavefronts, served 8 lanes at a time: as many bytes for a product as before. One read serves
// 4 products, barriers come once for 4, and fewer of the lanes that are served together meet in a bank.
//
// What remains: where two of these 8 lanes read different batches in the same banks, the read takes longer.
// At random columns that is so in most reads. 7_bank_order.cu does something about it, in a form of the
// matrix that 6_packed_shares.cu brings.
//
// Requires: as 3_row_per_sub_warp.cu, with 16 bytes of shared memory for each column.

#include "06_cuda_register/lanes_plan.hpp"

namespace stages {
namespace {

constexpr int kBlock = 256;

template <class T, int kWidth>
__global__ void __launch_bounds__(kBlock)
    vector_batches(CsrView<T, std::int32_t> a, const T* x, T* y, int products, int lanes) {
  constexpr int kSize = Batch<T>::kSize;
  Batch<T>* const xs = dynamic_shared<Batch<T>>();  // and zeros behind them for the padding of short rows
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
  if (threadIdx.x == 0) xs[a.cols] = {};

  const int copy = static_cast<int>(blockIdx.y), copies = static_cast<int>(gridDim.y);
  for (int first = copy * kSize; first < products; first += copies * kSize) {
    __syncthreads();  // the batches before have been read
    stage_batch<kBlock>(xs, x, a.cols, first, products);
    __syncthreads();
    Batch<T> sum = {};
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const Batch<T> batch = xs[column[k]];
#pragma unroll
      for (int v = 0; v < kSize; ++v) sum.of[v] += value[k] * batch.of[v];
    }
#pragma unroll
    for (int v = 0; v < kSize; ++v) {
      const T total = sum_over_lanes(sum.of[v], lanes);
      if (row < a.rows && lane == 0 && first + v < products) y[Offset{first + v} * a.rows + row] = total;
    }
  }
}

}  // namespace

void add_vector_batches(Registry& registry) {
  add_lanes<kBlock, Copies::all_that_fit, Batch>(
      registry,
      {.name = "06_cuda_register/vector_batches",
       .idea = "x in batches of 16 bytes: one read from shared memory serves 4 vectors (of doubles 2)",
       .previous = "matrix_copies"},
      []<class T, int kWidth>() { return vector_batches<T, kWidth>; });
}

}  // namespace stages
