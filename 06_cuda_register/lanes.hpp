#pragma once
// From rung 3 on: how many lanes a row gets, for how many non-zeros of a lane kernels are compiled, the sum
// over a row's lanes; and from rung 5 on x in batches.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "common/gpu/cuda.hpp"
#include "common/matrix/types.hpp"

namespace stages {

/// The same element of as many vectors as 16 bytes hold: 4 of floats, 2 of doubles.
template <class T>
struct alignas(16) Batch {
  static constexpr int kSize = 16 / sizeof(T);
  T of[kSize];
};

/// Puts x[c] of vectors first .. first + kSize - 1 into batches in shared memory; zeros beyond the last one.
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

/// Sum over the `lanes` neighbouring lanes of a row; every lane gets it.
template <class T>
__device__ T sum_over_lanes(T sum, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(0xffffffffU, sum, distance);
  return sum;
}

/// The most non-zeros that a lane gets when `lanes` lanes share each row: the least number of steps.
template <class T>
Index resident_steps(const Csr<T>& a, int lanes) {
  return narrow<Index>((a.longest_row() + lanes - 1) / lanes);
}

/// The steps that kernels are compiled for.
inline constexpr std::array kStepChoices = {4, 8, 12, 16, 24, 32, 40, 48, 56, 64};
inline constexpr int kMostSteps = kStepChoices.back();

/// The smallest choice that holds `wanted`, or else the largest.
inline int steps_for(int wanted) {
  return *std::lower_bound(kStepChoices.begin(), kStepChoices.end() - 1, wanted);
}

/// Calls use.operator()<kSteps>() for the smallest choice that holds `steps`.
template <std::size_t kChoice = 0, class Use>
auto with_steps(int steps, Use&& use) {
  constexpr int kSteps = kStepChoices[kChoice];
  if constexpr (kSteps < kMostSteps) {
    if (steps > kSteps) return with_steps<kChoice + 1>(steps, std::forward<Use>(use));
  }
  return use.template operator()<kSteps>();
}

/// The fewest lanes per row (a power of two, at least `least`) with which no lane needs more than `most`
/// steps; 0: 32 are not enough.
template <class T>
int lanes_for(const Csr<T>& a, int most, int least = 1) {
  for (int lanes = least; lanes <= 32; lanes *= 2) {
    if (resident_steps(a, lanes) <= most) return lanes;
  }
  return 0;
}

/// Why a matrix cannot lie in registers: its longest row is too long for 32 lanes.
template <class T>
std::optional<std::string> refuse_long_rows(const Csr<T>& a) {
  if (lanes_for(a, kMostSteps) != 0) return std::nullopt;
  return fmt::format("a row has more than {} non-zeros, {} for each of 32 lanes", 32 * kMostSteps,
                     kMostSteps);
}

/// How many times a chip that holds `at_once` blocks holds a matrix of so many; 1 where it does not hold it.
inline unsigned copies_on_chip(int at_once, unsigned blocks) {
  return std::max(1u, static_cast<unsigned>(at_once) / std::max(1u, blocks));
}

}  // namespace stages
