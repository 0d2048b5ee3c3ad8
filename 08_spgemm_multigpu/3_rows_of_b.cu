// SpGEMM by hashing, a warp a row of C, which takes one row of B at a time.
//
// The idea: in rung 2 each lane walks along a row of B of its own. Here all 32 lanes take one row of B
// together, a column each, and then the next row (walks.hpp draws both). Three things follow:
//
// - The columns of one row of B are all different, so no two lanes add to one sum at a time, and the sums need
//   no atomics. (The keys still do: two columns may want the same free slot.)
// - A sum runs in the order of A's non-zeros: the same bits in each run.
// - Neighbouring lanes read neighbours in B, and none waits for the lane with the longest of 32 rows of B.
//   R-MAT gains most, and more in multiplying: its lanes met in one sum most often.
//
// What it costs: where rows of B are shorter than 32, lanes idle, and the warp waits for one row of B after
// the other. On uniform, with 8 in a row, both passes get slower by that. On the 27-point stencil only
// counting does: multiplying waits for probes in full tables, in both rungs.
//
// Input: any CSR matrices. Cost and memory: as rung 2.

#include "08_spgemm_multigpu/one_table.hpp"
#include "08_spgemm_multigpu/stage.hpp"
#include "08_spgemm_multigpu/walks.hpp"

namespace stages {
namespace {

using namespace spgemm;

struct ByRowsOfB {
  /// Counts a row in a table; false: a column found no slot within so many probes.
  template <class Ptr>
  __device__ static bool count(const Structures<Ptr>& f, Index row, Index* keys, unsigned slots,
                               bool in_global, unsigned most_probes, Index* counts) {
    for (unsigned s = threadIdx.x; s < slots; s += kWarp) keys[s] = kFree;
    __syncwarp();
    Index found = 0;
    const bool good = walk_by_rows_of_b(f, row, threadIdx.x, [&](Index column) {
      bool is_new = false;
      const unsigned slot = claim(keys, slots, home(column, slots, in_global), column, is_new, most_probes);
      found += is_new;
      return slot != kFull;
    });
    found = sum_over_warp(found);
    if (threadIdx.x == 0 && good) counts[row] = found;
    return good;
  }

  /// Adds up a row in a table that holds it, and writes it out in the order of the slots.
  template <class T, class Ptr>
  __device__ static void multiply(const Factors<T, Ptr>& f, Index row, Index* keys, T* values, unsigned slots,
                                  bool in_global, const Output<T>& c) {
    for (unsigned s = threadIdx.x; s < slots; s += kWarp) {
      keys[s] = kFree;
      values[s] = T{0};
    }
    __syncwarp();
    walk_by_rows_of_b(f, row, threadIdx.x, [&](Index column, T product) {
      bool is_new = false;
      const unsigned slot = claim(keys, slots, home(column, slots, in_global), column, is_new);
      values[slot] += product;  // no other lane has this column now
      return true;
    });
    write_taken_slots(keys, values, slots, threadIdx.x, c.row_ptr[row], c);
  }
};

}  // namespace

void add_rows_of_b(Registry& registry, const std::string& name, const HashSizes& sizes) {
  registry.add({.name = name,
                .idea = "a warp takes one row of B at a time: no atomics on sums, the same bits in each run",
                .previous = "hash_warp_per_row"},
               one_table<ByRowsOfB>(sizes));
}

}  // namespace stages
