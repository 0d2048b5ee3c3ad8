#pragma once
// CUDA's handles for memory of other processes, as far as both who gives them out and who opens them must
// know.

#include <algorithm>
#include <cstddef>

#include "common/gpu/backend.hpp"

namespace stages::mpi {

/// The bytes to ask cudaMalloc for where `bytes` are needed that other processes open by a handle. A handle
/// stands for whole blocks of 2 MiB, so these must hold nothing else; and one at least, so that there is
/// something to open. The executor has no handles.
inline std::size_t bytes_behind_handle(std::size_t bytes) {
  constexpr std::size_t kBlock = std::size_t{2} << 20;
  if (STAGES_SIMULATED) return bytes;
  return (std::max<std::size_t>(bytes, 1) + kBlock - 1) / kBlock * kBlock;
}

}  // namespace stages::mpi
