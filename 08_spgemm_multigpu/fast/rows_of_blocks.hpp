#pragma once
// Kernels with a block a row, or several. Where the host knows how many rows there are, a block has one. Where
// it does not (recorded.hpp), blocks for as many as there could be would take longer to find nothing than the
// others to work: there are fewer, and each takes one row after the other.

#include <algorithm>

#include "08_spgemm_multigpu/rows.hpp"
#include "common/gpu/launch.hpp"

namespace stages::spgemm {

/// The blocks of a launch.
inline unsigned blocks_for_rows(const RowList& list, Index blocks_a_row = 1) {
  return std::min(blocks_for(Offset{list.count} * blocks_a_row, 1), list.most_blocks);
}

/// Calls take(row, part, number) for what is this block's: rows of the list, with their number in it, and parts
/// of them below `blocks_a_row`. The whole block meets after each.
template <class Take>
__device__ void take_rows(const RowList& list, unsigned blocks_a_row, Take take) {
  const unsigned all = list.size() * blocks_a_row;
  for (unsigned k = blockIdx.x; k < all; k += gridDim.x) {
    take(list.rows[k / blocks_a_row], k % blocks_a_row, static_cast<Index>(k / blocks_a_row));
    __syncthreads();
  }
}

}  // namespace stages::spgemm
