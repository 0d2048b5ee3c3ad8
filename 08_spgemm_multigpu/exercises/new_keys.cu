// Task: fill in the search for a column's slot so that only new columns cost an atomic: a warp has a row of B.
// Reference: 08_spgemm_multigpu/rows_of_b
// At most: 2,800 requests in atomics
// At least: 600 requests in atomics
// Counted on: gen:uniform:n=100,per_row=30
//
// In hash_slot.cu each lane has a row of B of its own, and each product two atomics: one finds its slot, one
// adds to it. Here the 32 lanes go along one row of B together, then along the next. The columns of a row of
// B are different, so no two lanes bring the same one: each adds to a sum of its own, without an atomic. Two
// of them may still want one free slot in the same moment. But most columns have come before: they are in the
// table, and whoever has read his own column in a slot need not claim it. A slot that was read as free may be
// another's before it is claimed; atomicCAS(&keys[s], kFree, column) says whose it is. (Who claims by a plain
// store has no atomics at all, and is right only as long as two lanes are not that quick: hence the second
// demand.)
//
// Before you write: a slot never becomes free again while a row is made. Which of the three answers of seen()
// (free, this column, another one) can be old by the time you act on it, and which cannot?

#include "micro/spgemm.hpp"

namespace stages {
namespace {

using micro::kFree, micro::kWarp;

/// What slot s held at some time not long ago: volatile says that others write there.
__device__ Index seen(const Index* keys, unsigned s) { return *static_cast<const volatile Index*>(&keys[s]); }

/// The slot of `column`, which takes one if it has none yet. Lanes that call it at the same time bring
/// different columns.
__device__ unsigned slot_of(Index* keys, unsigned slots, Index column) {
  unsigned slot = __umulhi(static_cast<unsigned>(column) * 0x9E3779B1u, slots);
  // SOLUTION
  for (;; slot = (slot + 1) & (slots - 1)) {
    Index found = seen(keys, slot);
    if (found == kFree) found = atomicCAS(&keys[slot], kFree, column);
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
    for (Offset e = a.row_ptr[row]; e < a.row_ptr[row + 1]; ++e) {
      const Index k = a.col_idx[e];
      for (Offset q = b.row_ptr[k] + lane; q < b.row_ptr[k + 1]; q += kWarp)
        table.sums[slot_of(table.keys, table.slots, b.col_idx[q])] += a.values[e] * b.values[q];
      __syncwarp();
    }
    c.take(table, row, lane);
  }
}

}  // namespace

void add_task(Registry& registry) {
  registry.add<micro::TableSpgemm>(
      {.name = "task/new_keys", .idea = "a row of B at a time"},
      []<class T>(const CsrView<T, Offset>& a, const CsrView<T, Offset>& b, const micro::Tables<T>& tables,
                  const micro::Results<T>& c, cudaStream_t stream) {
        launch(multiply<T>, {.grid = tables.count, .block = kWarp, .stream = stream}, a, b, tables, c);
      });
}

}  // namespace stages
