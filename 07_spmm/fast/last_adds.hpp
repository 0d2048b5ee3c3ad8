#pragma once
// The parts of a cut row are added up by the group of lanes that comes last, within the kernel that made them.
//
// The idea: a kernel of its own for the cut rows (cut_rows.cu) waits for all shares, and small products are
// over before it could be sent. But each cut row has only a few groups that work on it, and a counter tells
// them who comes last: then all parts are there, and that group adds the slots to C. Their order is that of
// the slots, whoever adds them, so the bits are the same in every run.
//
// Rows with more than kFewParts slots are left to cut_rows.cu: one group would take too long for them.

#include "07_spmm/fast/kernels.hpp"

namespace stages::spmm {

/// The counters of `work` for the strip that begins with so many columns before it, a multiple of 8.
template <class T>
__device__ unsigned* arrivals_of_strip(const CutMatrix<T>& a, Offset column) {
  return a.arrivals + column / kNarrowestStrip * a.partition.split_rows;
}

/// Split row `split` (-1: none) is done as far as the group of the calling lane is concerned. If all others are
/// too, calls `add` with the row and its slots: from the first to before the last. All lanes of a warp come
/// along, and a group has kLanes of them. A row's slots are one fewer than the groups that it has.
template <unsigned kLanes, class T, class Add>
__device__ void arrive(const CutMatrix<T>& a, unsigned* arrivals, Index split, Add add) {
  const SplitRow row = split >= 0 ? a.partition.split[split] : SplitRow{};
  const Index end = split >= 0 ? a.partition.split[split + 1].first_slot : 0, parts = end - row.first_slot;
  const bool counts = parts > 0 && parts <= kFewParts, is_first = threadIdx.x % kLanes == 0;
  if (!__any_sync(kAllLanes, counts)) return;
  __syncwarp();
  unsigned earlier = 0;
  if (counts && is_first) {
    // Releases what the lanes stored. A fence may also empty the SM's L1, which holds rows of B, so only the
    // group that reads what others stored takes one.
    earlier = cuda::atomic_ref<unsigned, cuda::thread_scope_device>(arrivals[split])
                  .fetch_add(1, cuda::memory_order_release);
  }
  earlier = __shfl_sync(kAllLanes, earlier, 0, kLanes);
  if (!counts || earlier != static_cast<unsigned>(parts)) return;
  __threadfence();
  add(row.row, row.first_slot, end);
  if (is_first) arrivals[split] = 0;
}

}  // namespace stages::spmm
