#pragma once
// What rungs 5 to 8 keep of x in shared memory.

#include "common/gpu/cuda.hpp"

namespace stages {

/// The same element of as many vectors as 16 bytes hold: 4 of floats, 2 of doubles.
template <class T>
struct alignas(16) Batch {
  static constexpr int kSize = 16 / sizeof(T);
  T of[kSize];
};

/// Puts x[c] of vectors first .. first + kSize - 1 into batches in shared memory; zeros for vectors beyond
/// the last.
template <int kBlock, class T>
__device__ void stage_batch(Batch<T>* to, const T* x, int cols, int first, int products) {
  for (int c = static_cast<int>(threadIdx.x); c < cols; c += kBlock) {
    Batch<T> batch;
#pragma unroll
    for (int k = 0; k < Batch<T>::kSize; ++k) {
      batch.of[k] = first + k < products ? x[static_cast<std::int64_t>(first + k) * cols + c] : T{0};
    }
    to[c] = batch;
  }
}

}  // namespace stages
