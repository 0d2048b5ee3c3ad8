// SpGEMM by hashing, a warp a row of C, which takes one row of B at a time.
//
// The idea: in rung 2 each lane walks along a row of B of its own. Here all 32 lanes take one row of B
// together, a non-zero each, 32 at a time, and then the next row:
//
//   rung 2   lane 0: non-zero 0 of A, its row of B   b b b b        two lanes may hold one column
//            lane 1: non-zero 1 of A, its row of B   b b b b b b
//   here     non-zero 0 of A: lanes 0..31, its row of B             32 different columns,
//            non-zero 1 of A: lanes 0..31, its row of B             in the order of A's non-zeros
//
// Three things follow. The columns of one row of B are all different, so no two lanes add to one sum between
// two barriers, and the sums need no atomics. (The keys still do: two columns may want the same free slot.) A
// sum runs in the order of A's non-zeros: the same bits in each run. And neighbouring lanes read neighbours in
// B.
//
// What it costs: where rows of B are shorter than 32, lanes idle, and the warp waits for one row of B after
// the other.
//
// Input: any CSR matrices. Cost and memory: as rung 2.

#include "08_spgemm_multigpu/hashed.hpp"
#include "08_spgemm_multigpu/stage.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages {
namespace spgemm {
namespace {

template <class T>
__global__ void __launch_bounds__(kWarp)
    count_rows(View<T> a, View<T> b, Rows rows, Tables<T> tables, Index* counts) {
  Index* const keys = tables.keys();
  for (Offset row = blockIdx.x; row < a.rows; row += gridDim.x) {
    if (!rows.has(row)) continue;
    tables.clear_keys();
    Index found = 0;
    for (Offset e = a.row_ptr[row]; e < a.row_ptr[row + 1]; ++e) {
      const Index k = a.col_idx[e];
      for (Offset q = b.row_ptr[k] + threadIdx.x; q < b.row_ptr[k + 1]; q += kWarp) {
        bool is_new;
        claim(keys, tables.slots, b.col_idx[q], is_new);
        found += is_new;
      }
    }
    found = sum_over_warp(found);
    if (threadIdx.x == 0) counts[row] = found;
  }
}

template <class T>
__global__ void __launch_bounds__(kWarp)
    multiply_rows(View<T> a, View<T> b, Rows rows, Tables<T> tables, Output<T> c) {
  Index* const keys = tables.keys();
  T* const values = tables.values();
  for (Offset row = blockIdx.x; row < a.rows; row += gridDim.x) {
    if (!rows.has(row)) continue;
    tables.clear();
    for (Offset e = a.row_ptr[row]; e < a.row_ptr[row + 1]; ++e) {
      const Index k = a.col_idx[e];
      for (Offset q = b.row_ptr[k] + threadIdx.x; q < b.row_ptr[k + 1]; q += kWarp) {
        bool is_new;
        const unsigned slot = claim(keys, tables.slots, b.col_idx[q], is_new);
        values[slot] += a.values[e] * b.values[q];  // no other lane has this column now
      }
      __syncwarp();  // the next row of B may have the same columns
    }
    write_taken_slots(keys, values, tables.slots, threadIdx.x, c.row_ptr[row], c);
  }
}

template <class T>
class RowsOfB final : public OneTablePlan<T> {
 public:
  RowsOfB(const SpgemmProblem<T>& problem, Exec& exec, Index slots)
      : OneTablePlan<T>(problem, exec, rows_of_b<T>(), slots) {}
};

}  // namespace

template <class T>
HashKernels<T> rows_of_b() {
  return {count_rows<T>, multiply_rows<T>};
}
STAGES_FOR_VALUES(rows_of_b)

}  // namespace spgemm

void add_rows_of_b(Registry& registry, const std::string& name, Index slots) {
  registry.add<spgemm::RowsOfB>(
      {.name = name,
       .idea = "a warp takes one row of B at a time: no atomics on sums, the same bits in each run",
       .previous = "hash_warp_per_row"},
      slots);
}

}  // namespace stages
