// One launch for all products, with the matrix in a form of its own.
//
// The idea: what a thread keeps for all products, prepare can lay out as the warps will load it. In CSR the
// lanes of a warp read from up to 32 rows, each from its own place. Here the values of a warp lie side by side,
// step after step, 32 neighbouring numbers at a time, without row pointers (resident.hpp, share.hpp): the
// ELLPACK of step 5, a warp at a time. Columns have 16 bits. Sums are added as in 5_vector_batches.cu.
//
// The load is done once for all products. It is worth most where copies of the matrix are many and each takes
// few batches, and 16-bit columns take fewer registers (notes.md). What else the form is good for comes now:
// lanes that are served together read different batches in the same banks, and as prepare lays out the
// non-zeros, it can choose their order: 7_bank_order.cu.
//
// Requires: 16-bit columns, rows of at most 32 x 64 non-zeros, batches of x that fit a block's shared memory,
// independent vectors. All rows are padded to one length.

#include "06_cuda_register/resident_plan.hpp"

namespace stages {
namespace {

template <class T, int kSteps>
__global__ void __launch_bounds__(kResidentBlock)
    packed_shares(ResidentView<T> a, const T* x, T* y, int products) {
  constexpr int kSize = Batch<T>::kSize;
  Batch<T>* const xs = dynamic_shared<Batch<T>>();  // and zeros behind them for the padding of short rows
  const Offset thread = Offset{blockIdx.x} * kResidentBlock + threadIdx.x;
  const Offset row = thread / a.lanes;
  const int lane = static_cast<int>(thread % a.lanes);
  Share<T, kSteps> share = {};
  share.load(a, thread);
  if (threadIdx.x < shared_banks(16)) xs[a.cols + static_cast<int>(threadIdx.x)] = {};

  const int copy = static_cast<int>(blockIdx.y), copies = static_cast<int>(gridDim.y);
  for (int first = copy * kSize; first < products; first += copies * kSize) {
    __syncthreads();  // the batches before have been read
    stage_batch<kResidentBlock>(xs, x, a.cols, first, products);
    __syncthreads();
    if (thread / 32 >= a.warps) continue;  // a warp behind the matrix
    Batch<T> sum = {};
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const Batch<T> batch = xs[share.column(s)];
#pragma unroll
      for (int v = 0; v < kSize; ++v) sum.of[v] += share.value[s] * batch.of[v];
    }
#pragma unroll
    for (int v = 0; v < kSize; ++v) {
      const T total = sum_over_lanes(sum.of[v], a.lanes);
      if (row < a.rows && lane == 0 && first + v < products) y[Offset{first + v} * a.rows + row] = total;
    }
  }
}

}  // namespace

void add_packed_shares(Registry& registry) {
  add_resident<StepOrder::as_they_come, 1>(
      registry,
      {.name = "06_cuda_register/packed_shares",
       .idea = "what the lanes of a warp keep lies side by side in memory, with 16-bit columns",
       .previous = "vector_batches"},
      []<class T, int kSteps>() { return packed_shares<T, kSteps>; });
}

}  // namespace stages
