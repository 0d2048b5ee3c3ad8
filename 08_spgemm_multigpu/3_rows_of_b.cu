// SpGEMM by hashing, a warp a row of C, which takes one row of B at a time.
//
// The idea: in rung 2 each lane walks along a row of B of its own. Here all 32 lanes take one row of B
// together, a column each, and then the next row (walks.hpp draws both). Three things follow:
//
//   - The columns of one row of B are all different. So no two lanes add to one sum at a time, and the sums
//     need no atomics. (The keys still do: two columns may want the same free slot.)
//   - A sum runs in the order of A's entries, whatever lanes and warps do: the same bits in each run.
//   - Neighbouring lanes read neighbours in B. And none waits for the lane with the longest of 32 rows of B.
//     R-MAT gains most, and more in multiplying than in counting: its lanes met in one sum most often.
//
// What it costs: where rows of B are shorter than 32, lanes idle; and the warp meets after each row of B, so it
// waits for one after the other. On uniform, with 8 in a row, both passes get slower by that. On the 27-point
// stencil only counting does: multiplying waits for probes in full tables, in both rungs. The rest is rung 2's,
// line by line.
//
// Input: any CSR matrices. Cost and memory: as rung 2.

#include "08_spgemm_multigpu/one_table.hpp"
#include "08_spgemm_multigpu/stage.hpp"
#include "08_spgemm_multigpu/walks.hpp"

namespace stages {
namespace {

using namespace spgemm;

/// Where a column would like to be: in tables in shared memory, and in global memory.
__device__ unsigned home(Index column, unsigned slots, bool in_global) {
  return in_global ? home_of(column, slots) : static_cast<unsigned>(column) & (slots - 1);
}

/// Counts a row in a table; false: a column found no slot within so many probes.
template <class Ptr>
__device__ bool count_row(const Structures<Ptr>& f, Index row, Index* keys, unsigned slots, bool in_global,
                          unsigned most_probes, Index* counts) {
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

/// A block a row. Rows for which the table is too full go to the list `full`, and are marked.
template <class Ptr>
__global__ void __launch_bounds__(kWarp) count_rows(Structures<Ptr> f, unsigned slots, unsigned most_probes,
                                                    Index* counts, LongRows full, unsigned char* is_full) {
  const Index row = static_cast<Index>(blockIdx.x);
  const bool good = count_row(f, row, dynamic_shared<Index>(), slots, false, most_probes, counts);
  if (threadIdx.x > 0) return;
  is_full[row] = !good;
  if (!good) full.rows[atomicAdd(full.count, 1)] = row;
}

/// Those rows again, with keys in global memory.
template <class Ptr>
__global__ void __launch_bounds__(kWarp)
    count_full_rows(Structures<Ptr> f, RowList list, Index* keys, unsigned slots, Index* counts) {
  count_row(f, list.rows[blockIdx.x], keys + std::size_t{blockIdx.x} * slots, slots, true, slots, counts);
}

/// Adds up a row in a table that holds it, and writes it out in the order of the slots.
template <class T, class Ptr>
__device__ void multiply_row(const Factors<T, Ptr>& f, Index row, Index* keys, T* values, unsigned slots,
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

/// A block a row, for rows with at most `most` results; the others leave at once.
template <class T, class Ptr>
__global__ void __launch_bounds__(kWarp)
    multiply_rows(Factors<T, Ptr> f, Index most, unsigned slots, Output<T> c) {
  const Index row = static_cast<Index>(blockIdx.x);
  const Offset results = c.row_ptr[row + 1] - c.row_ptr[row];
  if (results == 0 || results > most) return;
  T* const values = dynamic_shared<T>();
  multiply_row(f, row, reinterpret_cast<Index*>(values + slots), values, slots, false, c);
}

/// A block a row of the list. Keys are in shared memory where that was enough to count them, values never.
/// `shared_slots` is not more than the slots of the tables.
template <class T, class Ptr>
__global__ void __launch_bounds__(kWarp)
    multiply_long_rows(Factors<T, Ptr> f, RowList list, const unsigned char* is_full, unsigned shared_slots,
                       Tables<T> tables, Output<T> c) {
  const Index row = list.rows[blockIdx.x];
  const bool in_global = is_full[row] != 0;
  const std::size_t begin = std::size_t{blockIdx.x} * static_cast<std::size_t>(tables.slots);
  multiply_row(f, row, in_global ? tables.keys + begin : dynamic_shared<Index>(), tables.values + begin,
               in_global ? static_cast<unsigned>(tables.slots) : shared_slots, in_global, c);
}

template <class T>
class RowsOfB final : public OneTablePlan<T> {
 public:
  using OneTablePlan<T>::OneTablePlan;

 protected:
  OneTableKernels<T> kernels() const override {
    return {count_rows<Offset>, count_full_rows<Offset>, multiply_rows<T, Offset>,
            multiply_long_rows<T, Offset>};
  }
};

}  // namespace

void add_rows_of_b(Registry& registry, const std::string& name, const HashSizes& sizes) {
  registry.add<RowsOfB>(
      {.name = name,
       .idea = "a warp takes one row of B at a time: no atomics on sums, the same bits in each run",
       .needs = {.gpu = true}},
      sizes);
}

}  // namespace stages
