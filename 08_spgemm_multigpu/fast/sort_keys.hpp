#pragma once
// Sorting in the registers of a team of lanes, each with a few keys: K. E. Batcher's bitonic sort ("Sorting
// networks and their applications", 1968).

#include "08_spgemm_multigpu/fast/rows.hpp"

namespace stages::spgemm {

/// Puts each key where it belongs between this lane and the lane that differs in the bits `lanes`.
template <unsigned kTeam, unsigned kPerLane, class Key>
__device__ void exchange_lanes(Key (&key)[kPerLane], const Key (&sent)[kPerLane], unsigned lanes,
                               bool lower) {
#pragma unroll
  for (unsigned r = 0; r < kPerLane; ++r) {
    const Key other = __shfl_xor_sync(kAllLanes, sent[r], static_cast<int>(lanes), kTeam);
    key[r] = lower ? min(key[r], other) : max(key[r], other);
  }
}

template <class Key>
__device__ void exchange(Key& one, Key& other) {
  const Key low = min(one, other);
  other = max(one, other);
  one = low;
}

/// Sorts the keys of a team: key r of lane l becomes number l * kPerLane + r. All comparisons ascend: the
/// first step of a merge compares mirror images, number i with i ^ (size - 1).
template <unsigned kTeam, unsigned kPerLane, class Key>
__device__ void sort_keys(Key (&key)[kPerLane], unsigned lane) {
#pragma unroll
  for (unsigned size = 2; size <= kTeam * kPerLane; size *= 2) {
    if (size <= kPerLane) {
#pragma unroll
      for (unsigned r = 0; r < kPerLane; ++r) {
        if ((r & (size / 2)) == 0) exchange(key[r], key[(r ^ (size - 1)) % kPerLane]);
      }
    } else {
      const unsigned lanes = size / kPerLane;
      Key mirrored[kPerLane];
#pragma unroll
      for (unsigned r = 0; r < kPerLane; ++r) mirrored[r] = key[kPerLane - 1 - r];
      exchange_lanes<kTeam>(key, mirrored, lanes - 1, (lane & (lanes / 2)) == 0);
    }
#pragma unroll
    for (unsigned apart = size / 4; apart > 0; apart /= 2) {
      if (apart >= kPerLane) {
        Key sent[kPerLane];
#pragma unroll
        for (unsigned r = 0; r < kPerLane; ++r) sent[r] = key[r];
        exchange_lanes<kTeam>(key, sent, apart / kPerLane, (lane & (apart / kPerLane)) == 0);
      } else {
#pragma unroll
        for (unsigned r = 0; r < kPerLane; ++r) {
          if ((r & apart) == 0) exchange(key[r], key[(r | apart) % kPerLane]);
        }
      }
    }
  }
}

}  // namespace stages::spgemm
