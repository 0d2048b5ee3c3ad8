#pragma once
// More of hash tables: what the forms of `binned` need beside tables.hpp.

#include "08_spgemm_multigpu/tables.hpp"

namespace stages::spgemm {

/// As claim(). A plain load saves the atomic operation where the column has its slot already.
__device__ inline unsigned claim_in_roomy(Index* keys, unsigned slots, Index column, bool& is_new) {
  is_new = false;
  for (unsigned slot = home_of(column, slots);; slot = slot + 1 == slots ? 0 : slot + 1) {
    Index found = *const_cast<volatile Index*>(&keys[slot]);
    if (found == column) return slot;
    if (found != kFree) continue;
    found = atomicCAS(&keys[slot], kFree, column);
    is_new = found == kFree;
    if (is_new || found == column) return slot;
  }
}

/// The slot of a column that is in the table.
__device__ inline unsigned find(const Index* keys, unsigned slots, Index column) {
  unsigned slot = home_of(column, slots);
  while (keys[slot] != column) slot = slot + 1 == slots ? 0 : slot + 1;
  return slot;
}

/// The same for a list of numbers.
template <class Meet>
__device__ void sort_numbers(Index* numbers, Index n, unsigned me, unsigned members, Meet meet) {
  sort_ascending(
      n, me, members,
      [=](unsigned i, unsigned j) {
        const Index low = numbers[i], high = numbers[j];
        if (low <= high) return;
        numbers[i] = high;
        numbers[j] = low;
      },
      meet);
}

}  // namespace stages::spgemm
