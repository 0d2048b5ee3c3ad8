#pragma once
// Two ways in which a warp walks along the products of a row of C. Rungs 1 and 2 take the first, rungs 3 to 6
// the second for all rows that they hash.
//
//   walk_by_lanes        lane 0: entry 0 of A, its row of B   b b b b        two lanes may hold one column
//                        lane 1: entry 1 of A, its row of B   b b b b b b
//   walk_by_rows_of_b    entry 0 of A: lanes 0..31, its row of B             32 different columns
//                        entry 1 of A: lanes 0..31, its row of B             in the order of A's entries

#include "08_spgemm_multigpu/rows.hpp"

namespace stages::spgemm {

/// Calls visit(column, entry of A, position in B) for the products of a row, a lane an entry of A, until one
/// of them returns false, which is returned in every lane.
template <class Ptr, class Visit>
__device__ bool walk_by_lanes(const Structures<Ptr>& f, Index row, unsigned lane, Visit visit) {
  bool good = true;
  const Ptr end = f.a.row_ptr[row + 1];
  for (Ptr e = f.a.row_ptr[row] + static_cast<Ptr>(lane); good && e < end; e += static_cast<Ptr>(kWarp)) {
    const Index k = f.a.col_idx[e];
    const Ptr to = f.b.row_ptr[k + 1];
    for (Ptr q = f.b.row_ptr[k]; good && q < to; ++q) good = visit(f.b.col_idx[q], e, q);
  }
  return __all_sync(kAllLanes, good);
}

/// The same, one row of B after the other. The columns of a row of B are different, so no two lanes visit one
/// column at a time; and the warp meets after each row of B, so what a lane has added to a column's sum is
/// seen by the lane that adds to it next.
template <class Ptr, class Visit>
__device__ bool walk_by_rows_of_b(const Structures<Ptr>& f, Index row, unsigned lane, Visit visit) {
  bool good = true;
  const Ptr end = f.a.row_ptr[row + 1];
  for (Ptr e = f.a.row_ptr[row]; good && e < end; ++e) {
    const Index k = f.a.col_idx[e];
    const Ptr to = f.b.row_ptr[k + 1];
    for (Ptr q = f.b.row_ptr[k] + static_cast<Ptr>(lane); good && q < to; q += static_cast<Ptr>(kWarp)) {
      good = visit(f.b.col_idx[q], e, q);
    }
    good = __all_sync(kAllLanes, good);
    __syncwarp();  // a vote orders no memory
  }
  return good;
}

}  // namespace stages::spgemm
