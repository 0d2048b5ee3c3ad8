#pragma once
// Prefix sums on the device: from counts per row to row pointers. CUB with nvcc (scan_cub.cu), a plain loop
// on the executor (scan_simulated.cpp).

#include <cstdint>

#include "common/gpu/memory.hpp"

namespace stages {

/// Turns `n` counts into n + 1 offsets: offsets[0] = 0, offsets[i + 1] = counts[0] + ... + counts[i], summed
/// in the type of the offsets, which is not checked for overflow. Keeps its scratch memory between calls;
/// inside a graph capture, call reserve(n) before. `Count` and `Sum` are 32- or 64-bit signed integers,
/// Sum not the narrower.
template <class Count, class Sum>
class PrefixSum {
 public:
  /// Makes scratch memory for up to n counts.
  void reserve(std::int64_t n);

  /// Both pointers are device pointers; asynchronous on `stream`. They may not overlap.
  void run(const Count* counts, Sum* offsets, std::int64_t n, cudaStream_t stream);

 private:
  DeviceArray<unsigned char> scratch_;
  std::int64_t reserved_ = -1;
};

}  // namespace stages
