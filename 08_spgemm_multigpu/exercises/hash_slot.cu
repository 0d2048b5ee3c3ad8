// Task: fill in the search for a column's slot: C = A B, each row of C collected in a hash table.
// Reference: 08_spgemm_multigpu/hash_warp_per_row
// At most: 42,000 requests in atomics
// No race
//
// A table has an open place, a slot, for any column: keys[s] is the column that has slot s, or kFree, and
// sums[s] what was added up for it. A column looks first where its hash says; if another column has that slot
// it looks at the next one, and after the last at the first. The 32 lanes of a warp fill the table at the
// same time, each with a row of B of its own, so two of them may want one free slot in the same moment, or
// bring the same column. atomicCAS(&keys[s], kFree, column) puts the column there if the slot is free, and
// returns what was there before in any case.
//
// Before you write: the table has at least twice as many slots as the row has results. In how many places
// does the search rely on that? And what would `column & (slots - 1)` do to a matrix whose columns are all
// multiples of 1024?

#include "micro/spgemm.hpp"

namespace stages {
namespace {

using micro::kFree, micro::kWarp;

/// The slot of `column`, which takes one if it has none yet. Called by all lanes at the same time.
__device__ unsigned slot_of(Index* keys, unsigned slots, Index column) {
  unsigned slot = __umulhi(static_cast<unsigned>(column) * 0x9E3779B1u, slots);
  // SOLUTION
  for (;; slot = (slot + 1) & (slots - 1)) {
    const Index found = atomicCAS(&keys[slot], kFree, column);
    if (found == kFree || found == column) return slot;
  }
  // STUDENT
  // Your code: from this slot on, the first that is the column's or becomes it. Until then no column has one.
  static_cast<void>(keys);
  return slot;
  // END
}

/// Block b, a warp, has rows b, b + gridDim.x, ...
template <class T>
__global__ void multiply(CsrView<T, Offset> a, CsrView<T, Offset> b, micro::Tables<T> tables,
                         micro::Results<T> c) {
  const unsigned lane = threadIdx.x;
  const micro::Tables<T> table = tables.mine();
  for (Offset row = blockIdx.x; row < a.rows; row += gridDim.x) {
    table.clear(lane);
    for (Offset e = a.row_ptr[row] + lane; e < a.row_ptr[row + 1]; e += kWarp) {
      const Index k = a.col_idx[e];
      for (Offset q = b.row_ptr[k]; q < b.row_ptr[k + 1]; ++q)
        atomicAdd(&table.sums[slot_of(table.keys, table.slots, b.col_idx[q])], a.values[e] * b.values[q]);
    }
    __syncwarp();
    c.take(table, row, lane);
  }
}

}  // namespace

void add_task(Registry& registry) {
  registry.add<micro::TableSpgemm>(
      {.name = "task/hash_slot", .idea = "a hash table a row", .claims = {.bitwise_reproducible = false}},
      []<class T>(const CsrView<T, Offset>& a, const CsrView<T, Offset>& b, const micro::Tables<T>& tables,
                  const micro::Results<T>& c, cudaStream_t stream) {
        launch(multiply<T>, {.grid = tables.count, .block = kWarp, .stream = stream}, a, b, tables, c);
      });
}

}  // namespace stages
