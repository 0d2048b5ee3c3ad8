// One launch for all products, the non-zeros in an order that keeps reads of x apart.
//
// The idea: shared memory has 32 banks, and a read waits where lanes that are served together want different
// words of one bank. A batch of 16 bytes lies in 4 of them, so 8 lanes are served together, and there are 8
// places: column % 8 (the code calls each a bank). The order in which a lane takes its non-zeros is free. So
// prepare chooses it: in each step the 8 lanes take non-zeros whose batches lie in different places. A lane
// that has none left for a free place reads a zero behind x, if it has a step to spare; else places are shared.
//
// The steps to spare: an eighth more than there are non-zeros, rounded up to a size that is compiled. If with
// a smaller size more blocks fit on an SM, that is taken. At n = 1024 a lane has 52 non-zeros; 58 steps are
// wanted, 64 compiled, and on an H100 56 are taken. The kernel is that of 6_packed_shares.cu; new are
// `schedule` in resident.cpp, the spare steps in share.hpp, and what resident_plan.hpp makes of them.
//
// What remains: while a block copies its next batches, nobody in it multiplies. 8_stream_resident.cu does both.
//
// Requires: as 6_packed_shares.cu.

#include "06_cuda_register/resident_plan.hpp"

namespace stages {
namespace {

template <class T, int kSteps>
__global__ void __launch_bounds__(kResidentBlock)
    bank_order(ResidentView<T> a, const T* x, T* y, int products) {
  constexpr int kSize = Batch<T>::kSize;
  Batch<T>* const xs = dynamic_shared<Batch<T>>();  // and zeros behind them, one in each bank
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

void add_bank_order(Registry& registry) {
  add_resident<StepOrder::by_bank, 1>(
      registry,
      {.name = "06_cuda_register/bank_order",
       .idea = "the order of the non-zeros keeps reads of x from shared memory in different banks",
       .previous = "packed_shares"},
      []<class T, int kSteps>() { return bank_order<T, kSteps>; });
}

}  // namespace stages
