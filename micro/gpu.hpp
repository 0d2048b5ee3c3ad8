#pragma once
// What the frames for a GPU share: CUDA, the registry, and the words of the exercises.

#include <cstdint>

#include "common/gpu/frames.hpp"
#include "common/harness/registry.hpp"
#include "common/matrix/error.hpp"

namespace stages::micro {

using stages::kAllLanes, stages::kWarp;

/// Row i of a matrix is at positions row_ptr[i] .. row_ptr[i + 1] - 1 of col_idx and values. All are 32-bit
/// numbers.
template <class T>
using DeviceRows = CsrView<T, std::int32_t>;

}  // namespace stages::micro
