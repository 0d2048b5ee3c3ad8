// Independent vectors: the matrix stays, the vectors stream past.
//
// The idea: two buffers of x. In 7_bank_order.cu a block copies its next batches, waits, multiplies, and waits
// again. Here a warp copies its part of the next batches to the other buffer, and then multiplies those that
// are there, without waiting for the other warps: one barrier is left of two. It gains next to nothing on an
// H100 (README). Our reading: an SM holds two blocks of 7_bank_order.cu, and one copies while the other
// multiplies.
//
// With it the ladder is complete. Products that are launched one by one read the matrix again each time, at
// best from L2. Here each warp loads its share into registers once. 132 SMs have 35 MB of them: less than an
// H100's L2, but a register needs no load. The matrix needs only part of them (n = 1024 with 80 % zeros: about
// 8 of 132 SMs, two blocks on each), so the chip holds it several times.
//
// Shared memory, 128 bytes per SM and clock, sets a bound. Predicted for n = 1024, 205 per row: 210,000 reads
// of 4 bytes a vector over 132 SMs x 128 bytes a clock: 50 clocks, 0.03 us a vector. It takes twice that; what
// the rest is we have not separated (README).
//
// Requires: as 7_bank_order.cu, with two buffers of batches in a block's shared memory.

#include "06_cuda_register/resident_plan.hpp"

namespace stages {
namespace {

template <class T, int kSteps>
__global__ void __launch_bounds__(kResidentBlock)
    stream_resident(ResidentView<T> a, const T* x, T* y, int products) {
  constexpr int kSize = Batch<T>::kSize;
  Batch<T>* const staged = dynamic_shared<Batch<T>>();  // two buffers, and zeros behind each
  const int buffer_size = a.cols + shared_banks(16);
  const Offset thread = Offset{blockIdx.x} * kResidentBlock + threadIdx.x;
  const Offset row = thread / a.lanes;
  const int lane = static_cast<int>(thread % a.lanes);
  Share<T, kSteps> share = {};
  share.load(a, thread);
  for (int b = static_cast<int>(threadIdx.x); b < 2 * shared_banks(16); b += kResidentBlock) {
    staged[(b % 2) * buffer_size + a.cols + b / 2] = {};
  }

  const int copy = static_cast<int>(blockIdx.y), copies = static_cast<int>(gridDim.y);
  stage_batch<kResidentBlock>(staged, x, a.cols, copy * kSize, products);
  __syncthreads();
  int buffer = 0;
  for (int first = copy * kSize; first < products; first += copies * kSize, buffer ^= 1) {
    stage_batch<kResidentBlock>(staged + (buffer ^ 1) * buffer_size, x, a.cols, first + copies * kSize,
                                products);
    if (thread / 32 < a.warps) {  // else it is a warp behind the matrix
      const Batch<T>* const xs = staged + buffer * buffer_size;
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
    __syncthreads();  // the next batch is staged, and this one is read
  }
}

}  // namespace

void add_stream_resident(Registry& registry) {
  add_resident<StepOrder::by_bank, 2>(
      registry,
      {.name = "06_cuda_register/stream_resident",
       .idea = "two buffers of x: a warp copies its part of the next batch, and multiplies without waiting",
       .previous = "bank_order"},
      []<class T, int kSteps>() { return stream_resident<T, kSteps>; });
}

}  // namespace stages
