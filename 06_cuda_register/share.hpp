#pragma once
// A lane's share of the matrix in registers, for rungs 6 to 8 and the chains; and from rung 3 on how many lanes
// a row gets, the sum over them, and for how many non-zeros of a lane kernels are compiled.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "06_cuda_register/resident.hpp"
#include "common/gpu/cuda.hpp"

namespace stages {

// What rungs 5 to 8 keep of x in shared memory.

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

/// A Resident matrix in device memory, as kernels take it.
template <class T>
struct ResidentView {
  Index rows, cols;
  int lanes;  ///< lanes per row
  int warps;
  const T* values;
  const std::uint16_t* columns;
};

/// One lane's non-zeros. The loops over kSteps are unrolled, so that every element has a register of its own:
/// an array that is indexed by a variable would lie in local memory, which is device memory.
template <class T, int kSteps>
struct Share {
  T value[kSteps];
  unsigned column_pair[kSteps / 2];  ///< two 16-bit columns each

  /// What thread number `thread` of the grid keeps; nothing in a warp behind the matrix.
  __device__ void load(const ResidentView<T>& a, Offset thread) {
    if (thread / 32 >= a.warps) return;
    const Offset base = thread / 32 * kSteps * 32 + thread % 32;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) value[s] = a.values[base + s * 32];
#pragma unroll
    for (int s = 0; s < kSteps; s += 2) {
      column_pair[s / 2] = a.columns[base + s * 32] | static_cast<unsigned>(a.columns[base + (s + 1) * 32])
                                                          << 16;
    }
  }
  __device__ int column(int s) const {
    return static_cast<int>(s % 2 == 0 ? column_pair[s / 2] & 0xffffU : column_pair[s / 2] >> 16);
  }
};

/// Sum over the `lanes` neighbouring lanes of a row; every lane gets it.
template <class T>
__device__ T sum_over_lanes(T sum, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(0xffffffffU, sum, distance);
  return sum;
}

/// The matrix of a plan: cut up, uploaded, and the number of steps that a kernel is compiled for.
template <class T>
class ResidentMatrix {
 public:
  ResidentMatrix(const Csr<T>& a, int lanes, int steps, int element_bytes,
                 StepOrder order = StepOrder::by_bank)
      : host_(make_resident(a, lanes, steps, element_bytes, order)),
        values_(std::span<const T>(host_.values)),
        columns_(std::span<const std::uint16_t>(host_.columns)) {
    host_.values = {};
    host_.columns = {};
  }
  ResidentView<T> view() const {
    return {host_.rows, host_.cols, host_.lanes, host_.warps, values_.data(), columns_.data()};
  }
  int steps() const { return host_.steps; }
  int warps() const { return host_.warps; }
  Offset conflicts() const { return host_.conflicts; }

 private:
  Resident<T> host_;
  DeviceArray<T> values_;
  DeviceArray<std::uint16_t> columns_;
};

/// The steps that kernels are compiled for.
inline constexpr std::array kStepChoices = {4, 8, 12, 16, 24, 32, 40, 48, 56, 64};
inline constexpr int kMostSteps = kStepChoices.back();

/// The smallest choice that holds `needed`; by banks with an eighth more, so that the schedule has room to
/// avoid conflicts.
inline int steps_for(int needed, StepOrder order) {
  const int asked = order == StepOrder::by_bank ? needed + needed / 8 : needed;
  for (const int steps : kStepChoices) {
    if (steps >= asked) return steps;
  }
  return kMostSteps;
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
