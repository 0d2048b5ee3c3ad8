#pragma once
// What all kernels of this step know: where C's results go, and how a warp adds up.

#include "common/gpu/cuda.hpp"
#include "common/matrix/types.hpp"

namespace stages::spgemm {

/// Where results go: row i takes positions row_ptr[i] - base .. of both arrays.
template <class T>
struct Output {
  const Offset* row_ptr = nullptr;
  Offset base = 0;
  Index* col_idx = nullptr;
  T* values = nullptr;
};

/// The sum over the warp, in every lane.
template <class Number>
__device__ Number sum_over_warp(Number sum) {
  for (unsigned d = kWarp / 2; d > 0; d /= 2) sum += __shfl_xor_sync(kAllLanes, sum, static_cast<int>(d));
  return sum;
}

/// The sum over the lanes up to and with this one.
template <class Number>
__device__ Number sum_up_to(Number sum, unsigned lane) {
  for (unsigned d = 1; d < kWarp; d *= 2) {
    const Number before = __shfl_up_sync(kAllLanes, sum, d);
    if (lane >= d) sum += before;
  }
  return sum;
}

/// Bits of the lanes before this one.
__device__ inline unsigned lanes_below(unsigned lane) { return (1u << lane) - 1u; }

}  // namespace stages::spgemm
