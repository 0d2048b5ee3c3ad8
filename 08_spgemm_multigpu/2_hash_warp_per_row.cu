// SpGEMM by hashing, rows of any length: a wrong turn, one size of table for nearly all.
//
// The idea: nearly all rows get a table of 8,192 slots in shared memory (64 KB with floats, which a kernel must
// ask for). A row that may need more than half of them gets a table in global memory, with twice the slots that
// any row needs. There are as many of these as fit into 256 MiB; a block with such a table takes one long row
// after the other (hashed.hpp).
//
// So any matrix can be multiplied. But a row of ten results clears 8,192 slots twice, and three blocks of one
// warp, while they add up, fill an SM with their tables. On short rows this is slower than rung 1. In the
// course project ("D4"), whose last form this is, it was right: one kernel had to serve matrices with rows of
// 12,000 results, and a row that did not fit into the table never ended. Rung 4 puts it right by bins.
//
// Input: any CSR matrices. Cost: each product twice, with a probe or two; 8,192 slots cleared twice a row.
// Memory: A, B, C, 8 bytes a row, and the tables for long rows.

#include "08_spgemm_multigpu/hashed.hpp"
#include "08_spgemm_multigpu/stage.hpp"

namespace stages {
namespace {

using namespace spgemm;

template <class T>
__global__ void __launch_bounds__(kWarp)
    count_rows(View<T> a, View<T> b, Rows rows, Tables<T> tables, Index* counts) {
  Index* const keys = tables.keys();
  for (Offset row = blockIdx.x; row < a.rows; row += gridDim.x) {
    if (!rows.has(row)) continue;
    tables.clear_keys();
    Index found = 0;
    for (Offset e = a.row_ptr[row] + threadIdx.x; e < a.row_ptr[row + 1]; e += kWarp) {
      const Index k = a.col_idx[e];
      for (Offset q = b.row_ptr[k]; q < b.row_ptr[k + 1]; ++q) {
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
    for (Offset e = a.row_ptr[row] + threadIdx.x; e < a.row_ptr[row + 1]; e += kWarp) {
      const Index k = a.col_idx[e];
      for (Offset q = b.row_ptr[k]; q < b.row_ptr[k + 1]; ++q) {
        bool is_new;
        const unsigned slot = claim(keys, tables.slots, b.col_idx[q], is_new);
        atomicAdd(&values[slot], a.values[e] * b.values[q]);
      }
    }
    __syncwarp();
    write_taken_slots(keys, values, tables.slots, threadIdx.x, c.row_ptr[row], c);
  }
}

template <class T>
class HashWarpPerRow final : public OneTablePlan<T> {
 public:
  HashWarpPerRow(const SpgemmProblem<T>& problem, Exec& exec, Index slots)
      : OneTablePlan<T>(problem, exec, {count_rows<T>, multiply_rows<T>}, slots) {}
};

}  // namespace

void add_hash_warp_per_row(Registry& registry, const std::string& name, Index slots) {
  registry.add<HashWarpPerRow>(
      {.name = name,
       .idea = "a wrong turn: one size of table, 64 KB, for all rows; longer ones in global memory",
       .previous = "hash_fixed_table",
       .claims = {.bitwise_reproducible = false}},
      slots);
}

}  // namespace stages
