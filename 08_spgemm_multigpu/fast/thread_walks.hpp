#pragma once
// A row of C by one thread: the row, and its products one after the other, several of them asked for at once.

#include "08_spgemm_multigpu/rows.hpp"

namespace stages::spgemm {

/// The row of this thread; -1: none.
__device__ inline Index row_of_thread(RowList list) {
  const unsigned number = blockIdx.x * blockDim.x + threadIdx.x;
  return number < list.size() ? list.rows[number] : -1;
}

/// The products of a row, one after the other: which non-zero of A, and where in B. The row of B that comes
/// after the one at hand is looked up while that one is read, and the non-zero of A after that as well. A
/// thread without a row (row < 0) has no products.
template <class Ptr>
class ThreadWalk {
 public:
  __device__ ThreadWalk(const Structures<Ptr>& f, Index row) : f_(f) {
    if (row < 0) return;
    next_entry_ = f.a.row_ptr[row];
    end_ = f.a.row_ptr[row + 1];
    if (next_entry_ < end_) k_ = f.a.col_idx[next_entry_];
    look_up();
  }

  /// False at the end.
  __device__ bool next(Ptr& in_a, Ptr& in_b) {
    while (at_ == to_ && next_entry_ < end_) {
      at_ = next_at_;
      to_ = next_to_;
      ++next_entry_;
      look_up();
    }
    if (at_ == to_) return false;
    in_a = next_entry_ - 1;
    in_b = at_++;
    return true;
  }

 private:
  __device__ void look_up() {
    if (next_entry_ >= end_) return;
    next_at_ = f_.b.row_ptr[k_];
    next_to_ = f_.b.row_ptr[k_ + 1];
    if (next_entry_ + 1 < end_) k_ = f_.a.col_idx[next_entry_ + 1];
  }

  const Structures<Ptr>& f_;
  Ptr next_entry_ = 0, end_ = 0;   ///< of A's row; the one before is at hand
  Ptr at_ = 0, to_ = 0;            ///< what is left of the row of B at hand
  Ptr next_at_ = 0, next_to_ = 0;  ///< the row of B of next_entry_
  Index k_ = 0;                    ///< its number, then that of the one after
};

/// Calls read(non-zero of A, position in B) for each product of a row, and write(number of the product, what
/// read returned) for it later; returns how many there are. Several are read before the first of them is
/// written, which is when it must have come. One loop over products, not one over non-zeros and one inside:
/// lanes whose rows of B have other lengths do not wait for each other.
template <class Ptr, class Read, class Write>
__device__ unsigned expand(const Structures<Ptr>& f, Index row, Read read, Write write) {
  ThreadWalk<Ptr> walk(f, row);
  constexpr unsigned kAhead = 4;  // products that a thread asks for at once
  for (unsigned number = 0;; number += kAhead) {
    decltype(read(Ptr{}, Ptr{})) products[kAhead];
    unsigned count = 0;
#pragma unroll
    for (unsigned u = 0; u < kAhead; ++u) {
      Ptr in_a = 0, in_b = 0;
      if (!walk.next(in_a, in_b)) break;
      products[u] = read(in_a, in_b);
      ++count;
    }
#pragma unroll
    for (unsigned u = 0; u < kAhead; ++u) {
      if (u < count) write(number + u, products[u]);
    }
    if (count < kAhead) return number + count;
  }
}

}  // namespace stages::spgemm
