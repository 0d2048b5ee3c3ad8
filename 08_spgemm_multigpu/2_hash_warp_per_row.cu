// SpGEMM by hashing, a warp a row, for rows of any length: a larger table, and another place for longer rows.
//
//   count      16,384 slots in shared memory (64 KB, which a kernel must ask for). A row with a column that
//              finds no slot within 256 probes is listed, and counted again with keys in global memory, in a
//              table with twice the slots that any row needs
//   multiply   rows with more than 4,096 results have their values in global memory. All others use one size of
//              table: the smallest power of two that holds the longest of them
//   sort       as in rung 1
//
// (one_table.hpp has the kernels around count() and multiply().) In global memory a multiplicative hash finds
// the slot. With `column & (slots - 1)`, in a skewed graph, the low columns are nearly all there, those a
// multiple of `slots` further on come on top of them, and a column walks over thousands of taken slots.
//
// On a matrix of short rows counting is much slower than in rung 1, whose tables have 2,048 slots. Multiplying
// is faster where the longest row needs only a few hundred, and does not fill them: on uniform, not on the
// stencil.
//
// It is the last form of the course project, mended: there a row with more than 16,384 results never ended.
// Each row clears 64 KB to count, and three such blocks of one warp fill an SM: rung 4. Lanes that walk along
// rows of B read far apart, and sums by atomicAdd come out with other last bits in each run: rung 3.
//
// Input: any CSR matrices. Cost: each product twice, with a probe or more each; 16,384 slots cleared a row.
// Memory: A, B, C, and for long rows at most 256 MiB of tables (or one table, where that is larger).

#include "08_spgemm_multigpu/one_table.hpp"
#include "08_spgemm_multigpu/stage.hpp"
#include "08_spgemm_multigpu/walks.hpp"

namespace stages {
namespace {

using namespace spgemm;

struct ByLanes {
  /// Counts a row in a table; false: a column found no slot within so many probes.
  template <class Ptr>
  __device__ static bool count(const Structures<Ptr>& f, Index row, Index* keys, unsigned slots,
                               bool in_global, unsigned most_probes, Index* counts) {
    for (unsigned s = threadIdx.x; s < slots; s += kWarp) keys[s] = kFree;
    __syncwarp();
    Index found = 0;
    const bool good = walk_by_lanes(f, row, threadIdx.x, [&](Index column) {
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
    walk_by_lanes(f, row, threadIdx.x, [&](Index column, T product) {
      bool is_new = false;
      const unsigned slot = claim(keys, slots, home(column, slots, in_global), column, is_new);
      atomicAdd(&values[slot], product);
      return true;
    });
    __syncwarp();
    write_taken_slots(keys, values, slots, threadIdx.x, c.row_ptr[row], c);
  }
};

}  // namespace

void add_hash_warp_per_row(Registry& registry, const std::string& name, const HashSizes& sizes) {
  registry.add({.name = name,
                .idea = "a block of 32 threads a row, one size of hash table, atomicAdd",
                .previous = "hash_fixed_table",
                .claims = {.bitwise_reproducible = false}},
               one_table<ByLanes>(sizes));
}

}  // namespace stages
