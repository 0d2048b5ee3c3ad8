#pragma once
// Two ways in which a warp walks along the products of a row of C. Rungs 1 and 2 take the first, rungs 3 to 6
// the second for all rows that they hash.
//
//   walk_by_lanes        lane 0: non-zero 0 of A, its row of B   b b b b        two lanes may hold one column
//                        lane 1: non-zero 1 of A, its row of B   b b b b b b
//   walk_by_rows_of_b    non-zero 0 of A: lanes 0..31, its row of B             32 different columns
//                        non-zero 1 of A: lanes 0..31, its row of B             in the order of A's non-zeros

#include <type_traits>

#include "08_spgemm_multigpu/rows.hpp"

namespace stages::spgemm {

/// The row of B that belongs to a non-zero of A: positions [from, to). (A struct, so that what belongs to the
/// non-zero of A, its value as well, is loaded once, not for each product.)
template <class Ptr>
struct RowOfB {
  const Index* columns;
  Ptr from, to;

  template <class Visit>
  __device__ bool show(Ptr q, Visit& visit) const {
    return visit(columns[q]);
  }
};
/// The same with values, times that of the non-zero of A.
template <class T, class Ptr>
struct ProductsOfB : RowOfB<Ptr> {
  const T* values;
  T of_a;

  template <class Visit>
  __device__ bool show(Ptr q, Visit& visit) const {
    return visit(this->columns[q], of_a * values[q]);
  }
};

template <class Ptr>
__device__ RowOfB<Ptr> row_of_b(const Structures<Ptr>& f, Ptr e) {
  const Index k = f.a.col_idx[e];
  return {f.b.col_idx, f.b.row_ptr[k], f.b.row_ptr[k + 1]};
}
template <class T, class Ptr>
__device__ ProductsOfB<T, Ptr> row_of_b(const Factors<T, Ptr>& f, Ptr e) {
  return {row_of_b(f.structures(), e), f.b.values, f.a.values[e]};
}

/// Of Structures calls visit(column), of Factors visit(column, product) for the products of a row, a lane an
/// non-zero of A, until one of them returns false, which is returned in every lane.
template <class F, class Visit>
__device__ bool walk_by_lanes(const F& f, Index row, unsigned lane, Visit visit) {
  bool good = true;
  const auto end = f.a.row_ptr[row + 1];
  using Ptr = std::remove_cv_t<decltype(end)>;
  for (Ptr e = f.a.row_ptr[row] + static_cast<Ptr>(lane); good && e < end; e += static_cast<Ptr>(kWarp)) {
    const auto b = row_of_b(f, e);
    for (Ptr q = b.from; good && q < b.to; ++q) good = b.show(q, visit);
  }
  return __all_sync(kAllLanes, good);
}

/// The same, one row of B after the other. The columns of a row of B are different, so no two lanes visit one
/// column at a time; and the warp meets after each row of B, so what a lane has added to a column's sum is
/// seen by the lane that adds to it next.
template <class F, class Visit>
__device__ bool walk_by_rows_of_b(const F& f, Index row, unsigned lane, Visit visit) {
  bool good = true;
  const auto end = f.a.row_ptr[row + 1];
  using Ptr = std::remove_cv_t<decltype(end)>;
  for (Ptr e = f.a.row_ptr[row]; good && e < end; ++e) {
    const auto b = row_of_b(f, e);
    for (Ptr q = b.from + static_cast<Ptr>(lane); good && q < b.to; q += static_cast<Ptr>(kWarp)) {
      good = b.show(q, visit);
    }
    good = __all_sync(kAllLanes, good);
    __syncwarp();  // a vote orders no memory
  }
  return good;
}

}  // namespace stages::spgemm
