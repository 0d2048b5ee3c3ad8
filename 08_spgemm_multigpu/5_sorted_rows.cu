// SpGEMM with rows in bins, and short rows sorted in place of hashed.
//
// The idea: the rows of a random matrix rarely have two products in one column. A hash table finds nothing to
// add there, and its results must be sorted afterwards. So a row of up to 32 products goes the other way round,
// in the registers of a warp, a product a lane:
//
//   expand   lane p fetches product p of the row, in the order of A's non-zeros, with the key (column, p)
//   sort     the warp sorts the 32 keys: a bitonic network, 15 steps, each a shuffle and a minimum or maximum
//   add up   equal columns are neighbours now. The first of them adds up the others, in the order of p: the
//            same bits in each run (not always those of rung 4, which adds by fused operations)
//
// There is no table to clear, no probe and no atomic operation, and the row is sorted, as C wants it. To
// count, the same keys are sorted, and those that differ from the one before are counted. All other rows are
// hashed as in rung 4.
//
// Input: any CSR matrices. Cost: for a short row the sort, twice, whatever its length.
//
// Sources: expand-sort-compress is N. Bell, S. Dalton and L. Olson's ("Exposing fine-grained parallelism in
// algebraic multigrid methods", SIAM J. Sci. Comput. 34, 2012); the sort is K. E. Batcher's ("Sorting networks
// and their applications", 1968).

#include "08_spgemm_multigpu/bins.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages {
namespace spgemm {
namespace {

constexpr unsigned kBlock = 128;
using Key = unsigned long long;

/// A warp a row: its number of results to counts, or (null) its results to C.
template <class T>
__global__ void sort_products(View<T> a, View<T> b, Rows rows, Index* counts, Output<T> c) {
  const Offset row = (Offset{blockIdx.x} * kBlock + threadIdx.x) / kWarp;
  if (row >= a.rows || !rows.has(row)) return;  // the whole warp leaves
  const unsigned lane = threadIdx.x % kWarp;
  Key key = ~Key{0};  // behind all columns
  T value = 0;
  unsigned products = 0;                                          // of the rows of B before
  for (Offset e = a.row_ptr[row]; e < a.row_ptr[row + 1]; ++e) {  // expand
    const Offset q = b.row_ptr[a.col_idx[e]] + lane - products, end = b.row_ptr[a.col_idx[e] + 1];
    if (lane >= products && q < end) {
      key = static_cast<Key>(b.col_idx[q]) * kWarp + lane;
      value = a.values[e] * b.values[q];
    }
    products += static_cast<unsigned>(end - b.row_ptr[a.col_idx[e]]);
  }
  for (unsigned size = 2; size <= kWarp; size *= 2) {  // sort
    for (unsigned apart = size / 2; apart > 0; apart /= 2) {
      const Key other = __shfl_xor_sync(kAllLanes, key, static_cast<int>(apart));
      key = ((lane & apart) == 0) == ((lane & size) == 0) ? min(key, other) : max(key, other);
    }
  }
  const Index column = lane < products ? static_cast<Index>(key / kWarp) : -1;
  const bool differs = __shfl_up_sync(kAllLanes, column, 1) != column;  // from the lane before
  const unsigned firsts = __ballot_sync(kAllLanes, lane < products && (lane == 0 || differs));
  if (counts != nullptr && lane == 0) counts[row] = __popc(firsts);
  if (counts != nullptr) return;
  value = __shfl_sync(kAllLanes, value, static_cast<int>(key % kWarp));
  T sum = value;
  bool more = true;                                         // whether lane + d may still have this column
  for (unsigned d = 1; __any_sync(kAllLanes, more); ++d) {  // add up
    const T value_behind = __shfl_down_sync(kAllLanes, value, d);
    more = __shfl_down_sync(kAllLanes, column, d) == column && lane + d < products;
    if (more) sum += value_behind;
  }
  if ((firsts >> lane & 1) == 0) return;
  const Offset to = c.row_ptr[row] + __popc(firsts & lanes_below(lane));
  c.col_idx[to] = column;
  c.values[to] = sum;
}

}  // namespace

template <class T>
void SortedRowsPlan<T>::count(View<T> a, View<T> b, const Index* products, Index* counts) {
  launch(sort_products<T>,
         {.grid = blocks_for(a.rows, kBlock / kWarp), .block = kBlock, .stream = this->stream()}, a, b,
         Rows{products, 0, kMostSorted}, counts, Output<T>{});
  BinsPlan<T>::count(a, b, products, counts);
}

template <class T>
void SortedRowsPlan<T>::multiply(View<T> a, View<T> b, const Index* results, const Output<T>& c) {
  launch(sort_products<T>,
         {.grid = blocks_for(a.rows, kBlock / kWarp), .block = kBlock, .stream = this->stream()}, a, b,
         Rows{this->products_.data(), 0, kMostSorted}, nullptr, c);
  BinsPlan<T>::multiply(a, b, results, c);
}

template class SortedRowsPlan<float>;
template class SortedRowsPlan<double>;

}  // namespace spgemm

void add_sorted_rows(Registry& registry, const std::string& name, const BinSlots& slots) {
  registry.add<spgemm::SortedRowsPlan>(
      {.name = name,
       .idea = "as bins, but rows of up to 32 products are sorted in registers, not hashed",
       .previous = "bins"},
      slots);
}

}  // namespace stages
