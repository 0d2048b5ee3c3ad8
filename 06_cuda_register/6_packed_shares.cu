// One launch for all products, with the matrix in a form of its own.
//
// The idea: prepare lays side by side what the lanes of a warp keep: step after step, 32 values and 32 columns
// (resident.hpp). So a warp loads what it keeps without row pointers, 32 neighbouring numbers at a time, and
// columns have 16 bits, two of them to a register. Three things come with the form. Kernels are compiled for
// more sizes (share.hpp), so that there is less padding, and registers for it. Blocks are numbered in one
// dimension, copy after copy (`group` is what was `copy`). And a matrix of which the chip does not hold a copy
// is refused. The sums are added in the order of 5_vector_batches.cu.
//
// What remains is what remained there: lanes that are served together read different batches in the same banks.
// But now that prepare lays out the non-zeros, it can choose their order: 7_bank_order.cu.
//
// Requires: 16-bit columns, rows of at most 32 x 64 non-zeros, a copy of the matrix that fits the chip's
// registers, batches of x that fit a block's shared memory, independent vectors.

#include "06_cuda_register/resident_plan.hpp"

namespace stages {
namespace {

/// Block b has part b % blocks_per_copy of the matrix, in copy number b / blocks_per_copy, its `group`.
template <class T, int kSteps>
__global__ void __launch_bounds__(kResidentBlock)
    packed_shares(ResidentView<T> a, const T* x, T* y, int rows, int cols, int products, int blocks_per_copy,
                  int groups) {
  constexpr int kSize = Batch<T>::kSize;
  Batch<T>* const xs = dynamic_shared<Batch<T>>();  // cols batches, and zeros behind them for the padding
  const int group = static_cast<int>(blockIdx.x) / blocks_per_copy,
            part = static_cast<int>(blockIdx.x) % blocks_per_copy;
  const int lane = static_cast<int>(threadIdx.x) % 32,
            warp = part * kResidentWarps + static_cast<int>(threadIdx.x) / 32;
  const int row = warp * (32 / a.lanes) + lane / a.lanes;
  const bool has_share = warp < a.warps;

  Share<T, kSteps> share = {};
  if (has_share) share.load(a, warp, lane);
  if (const int b = static_cast<int>(threadIdx.x); b < shared_banks(16)) xs[cols + b] = {};

  for (int first = group * kSize; first < products; first += groups * kSize) {
    __syncthreads();  // the batches before have been read
    stage_batch<kResidentBlock>(xs, x, cols, first, products);
    __syncthreads();
    if (!has_share) continue;
    Batch<T> sum = {};
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const Batch<T> batch = xs[share.column(s)];
#pragma unroll
      for (int k = 0; k < kSize; ++k) sum.of[k] += share.value[s] * batch.of[k];
    }
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      const T total = sum_over_lanes(sum.of[k], a.lanes);
      if (lane % a.lanes == 0 && row < rows && first + k < products) {
        y[static_cast<std::int64_t>(first + k) * rows + row] = total;
      }
    }
  }
}

template <class T>
class PackedShares final : public ResidentPlan<T, PackedShares<T>> {
 public:
  using ResidentPlan<T, PackedShares<T>>::ResidentPlan;
  static constexpr StepOrder kOrder = StepOrder::as_they_come;
  static constexpr int kBuffers = 1;  ///< of x
  template <int kSteps>
  static auto kernel_of() {
    return packed_shares<T, kSteps>;
  }
};

}  // namespace

void add_packed_shares(Registry& registry) {
  registry.add<PackedShares>(
      {.name = "06_cuda_register/packed_shares",
       .idea = "a warp's part of the matrix side by side, 16-bit columns, more sizes compiled",
       .needs = {.gpu = true}});
}

}  // namespace stages
