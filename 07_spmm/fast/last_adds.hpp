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

/// What read(k, part) reads for k = begin .. end - 1, added up in this order. A lane asks for several before
/// it adds the first.
template <unsigned kSums, class T, class Read>
__device__ void sum_in_order(Index begin, Index end, Read read, T (&sums)[kSums]) {
  constexpr Index kAtOnce = kSums == 1 ? 8 : 4;
#pragma unroll
  for (unsigned s = 0; s < kSums; ++s) sums[s] = T{0};
  for (Index first = begin; first < end; first += kAtOnce) {
    T parts[kAtOnce][kSums] = {};
#pragma unroll
    for (Index u = 0; u < kAtOnce; ++u) {
      if (first + u < end) read(first + u, parts[u]);
    }
#pragma unroll
    for (Index u = 0; u < kAtOnce; ++u) {
#pragma unroll
      for (unsigned s = 0; s < kSums; ++s) sums[s] += parts[u][s];
    }
  }
}

/// The counters of `a` for the strip with so many columns before it, a multiple of kNarrowestStrip.
template <class T>
__device__ unsigned* arrivals_of_strip(const CutMatrix<T>& a, Offset column) {
  return a.arrivals + column / kNarrowestStrip * a.partition.split_rows;
}

/// A share is done: the row that ends in it, and the one that it cuts, are done as far as its group is
/// concerned. Of each that all others have done, too, calls `add` with the row and its slots: from the first to
/// before the last. All lanes of a warp come along; a group has kLanes of them. `number`: that of the share.
template <unsigned kLanes, class T, class Add>
__device__ void arrive(const CutMatrix<T>& a, unsigned* arrivals, unsigned number, Add add) {
  struct Part {
    Index split = -1;  ///< -1: there is no such row
    SplitRow row;
    Index end = 0;
    unsigned earlier = 0;
    bool is_last = false;

    __device__ Index slots() const { return end - row.first_slot; }  // one fewer than the row has groups
    __device__ bool counts() const { return split >= 0 && slots() <= kFewParts; }
  };
  Part parts[2];
  if (number < a.partition.shares) {
    parts[0].split = a.partition.share[number].ends;
    parts[1].split = a.partition.share[number].cuts;
  }
#pragma unroll
  for (Part& part : parts) {
    if (part.split < 0) continue;
    part.row = a.partition.split[part.split];
    part.end = a.partition.split[part.split + 1].first_slot;
  }
  if (!__any_sync(kAllLanes, parts[0].counts() || parts[1].counts())) return;
  __syncwarp();
  const bool is_first = threadIdx.x % kLanes == 0;
#pragma unroll
  for (Part& part : parts) {
    if (!is_first || !part.counts()) continue;
    // Releases what the lanes stored. A fence may also empty the SM's L1, which holds rows of B, so only the
    // group that reads what others stored takes one.
    part.earlier = cuda::atomic_ref<unsigned, cuda::thread_scope_device>(arrivals[part.split])
                       .fetch_add(1, cuda::memory_order_release);
  }
#pragma unroll
  for (Part& part : parts) {
    const unsigned earlier = __shfl_sync(kAllLanes, part.earlier, 0, kLanes);
    part.is_last = part.counts() && earlier == static_cast<unsigned>(part.slots());
  }
  const bool adds = parts[0].is_last || parts[1].is_last;
  if (!__any_sync(kAllLanes, adds)) return;
  if (adds && is_first) __threadfence();
  __syncwarp();
#pragma unroll
  for (Part& part : parts) {
    if (!part.is_last) continue;
    add(part.row.row, part.row.first_slot, part.end);
    if (is_first) arrivals[part.split] = 0;
  }
}

}  // namespace stages::spmm
