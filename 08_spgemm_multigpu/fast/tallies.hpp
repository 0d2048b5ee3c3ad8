#pragma once
// Counting rows by their forms: each block in shared memory, then all of them in global memory.

#include "08_spgemm_multigpu/fast/rules.hpp"
#include "08_spgemm_multigpu/rows.hpp"
#include "common/gpu/cuda.hpp"

namespace stages::spgemm {

inline constexpr int kNoForm = -1;  ///< of a lane without a row
static_assert(kForms <= static_cast<int>(kWarp));

/// Adds the rows of the warp's lanes to a tally, in shared memory, of the rows of each form; returns how many
/// a lane's own finds there. All lanes come. Neighbouring rows mostly have one form, and lanes that added to
/// one place by themselves would wait for each other.
__device__ inline Index place_of(int form, Index* tally) {
  const unsigned same = __match_any_sync(kAllLanes, form), lane = threadIdx.x % kWarp;
  const int leader = __ffs(static_cast<int>(same)) - 1;
  Index before = 0;
  if (form != kNoForm && static_cast<int>(lane) == leader) before = atomicAdd(&tally[form], __popc(same));
  return __shfl_sync(kAllLanes, before, leader) + __popc(same & lanes_below(lane));
}

/// Adds a block's tally to that of all. For the first kForms threads, after a barrier.
__device__ inline void add_tally(const Index* in_block, Index* tally) {
  if (threadIdx.x < kForms && in_block[threadIdx.x] > 0) {
    atomicAdd(&tally[threadIdx.x], in_block[threadIdx.x]);
  }
}

}  // namespace stages::spgemm
