// Task: find the fault in the counting of results, and mend it: hash tables that grow until each row fits.
// Reference: 08_spgemm_multigpu/binned
// At most: 200,000 requests in atomics
// No race
//
// A warp has a row of C and a table of column numbers. The tables are small at first; a row that finds no
// slot for one of its columns says so (kNotCounted), and all are counted again in tables twice as large. The
// original's table had 16,384 slots and its authors' matrices had no row with more results, for a long time.
// Then one of them had, and the run did not fail, it just never came to its end. Kernels do not say where
// they are; think before you print. `--time-limit 3` saves you some waiting.
//
// Say before you run it: a row with exactly as many results as there are slots, is that one more than goes
// well? Which classes of input can have no such row? And once it is mended: what does a row that is almost
// full cost, compared with one that is half full?

#include <algorithm>

#include "micro/spgemm.hpp"

namespace stages {
namespace {

using micro::kAllLanes, micro::kFree, micro::kWarp, micro::Results, micro::Tables;
constexpr Index kNotCounted = -2;
constexpr unsigned kNoSlot = ~0u;
constexpr unsigned kFirstSlots = 32;

/// The slot of `column`, which takes one if it has none yet; kNoSlot if there is none left.
__device__ unsigned slot_of(Index* keys, unsigned slots, Index column) {
  unsigned slot = static_cast<unsigned>(column) & (slots - 1);
  // SOLUTION
  for (unsigned probe = 0; probe < slots; ++probe) {
    const Index found = atomicCAS(&keys[slot], kFree, column);
    if (found == kFree || found == column) return slot;
    slot = (slot + 1) & (slots - 1);
  }
  return kNoSlot;
  // STUDENT
  while (slot != kNoSlot) {
    const Index found = atomicCAS(&keys[slot], kFree, column);
    if (found == kFree || found == column) break;
    slot = (slot + 1) & (slots - 1);
  }
  return slot;
  // END
}

/// Adds up a row of C in the table of its block, a row of B after the other, a lane a column. False: the
/// table is full.
template <class T>
__device__ bool add_up(const CsrView<T, Offset>& a, const CsrView<T, Offset>& b, Index row,
                       const Tables<T>& table, unsigned lane) {
  table.clear(lane);
  bool good = true;
  for (Offset e = a.row_ptr[row]; good && e < a.row_ptr[row + 1]; ++e) {
    const Index k = a.col_idx[e];
    for (Offset q = b.row_ptr[k] + lane; good && q < b.row_ptr[k + 1]; q += kWarp) {
      const unsigned slot = slot_of(table.keys, table.slots, b.col_idx[q]);
      good = slot != kNoSlot;
      if (good) table.sums[slot] += a.values[e] * b.values[q];
    }
    good = __all_sync(kAllLanes, good);
    __syncwarp();
  }
  return good;
}

/// Block b, a warp, has rows b, b + gridDim.x, ... The first pass counts the results of a row, or says
/// kNotCounted; in the second each row fits.
template <class T>
__global__ void multiply(CsrView<T, Offset> a, CsrView<T, Offset> b, Tables<T> tables, Results<T> c) {
  const unsigned lane = threadIdx.x;
  const Tables<T> table = tables.mine();
  for (Offset row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const bool good = add_up(a, b, static_cast<Index>(row), table, lane);
    c.take(table, row, lane);
    if (!good && lane == 0) c.counts[row] = kNotCounted;
  }
}

template <class T>
class MyGrowingTables final : public micro::TableSpgemm<T> {
  using View = CsrView<T, Offset>;
  using micro::TableSpgemm<T>::TableSpgemm;

  void count(DeviceArray<Index>& counts) override {
    std::vector<Index> counted;
    unsigned slots = kFirstSlots / 2;
    do {
      this->make_tables(slots *= 2);
      this->pass({.counts = counts.data()});
      counted = counts.to_host();
    } while (std::find(counted.begin(), counted.end(), kNotCounted) != counted.end());
  }

  void multiply(const View& a, const View& b, const Tables<T>& tables, const Results<T>& c,
                cudaStream_t stream) override {
    launch(stages::multiply<T>, {.grid = tables.count, .block = kWarp, .stream = stream}, a, b, tables, c);
  }
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<MyGrowingTables>({.name = "task/full_table", .idea = "hash tables that grow"});
}

}  // namespace stages
