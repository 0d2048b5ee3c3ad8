// SpGEMM with rows in bins, and short rows sorted in place of hashed.
//
// The idea: the rows of a random matrix have hardly two products in one column. A hash table finds nothing to
// add there, and its results must be sorted afterwards. So the bin of the shortest rows, of up to 128
// products, does it the other way round:
//
//   expand   write out all products of the row, in the order of A's non-zeros: product q gets key (column, q)
//   sort     a warp sorts 128 keys in its registers, 4 a lane. Two keys of one lane are compared by a minimum
//            and a maximum, those of two lanes after a shuffle (sort_keys.hpp)
//   add up   equal columns are neighbours now. The first of them adds up the others, in the order of q: the
//            same bits in each run
//
// There is no table to clear, no probe and no atomic operation, and the row is sorted, as C wants it. To
// count, the same keys are sorted and differing neighbours counted, which is slower than hashing (not so with
// fewer lanes a row: fast/sorted_rows.cu); what gains is the rest. All other rows are hashed as in rung 4.
// Also new: the first bin has rows of up to 128 products, not 64, and blocks of four warps, a row each.
//
// Input: any CSR matrices. Cost: for a short row some 28 steps of the sort, whatever its length.
//
// Sources: expand-sort-compress is N. Bell, S. Dalton and L. Olson's ("Exposing fine-grained parallelism in
// algebraic multigrid methods", SIAM J. Sci. Comput. 34, 2012); the sort is K. E. Batcher's ("Sorting networks
// and their applications", 1968).

#include "08_spgemm_multigpu/row_tables.hpp"
#include "08_spgemm_multigpu/sort_keys.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages::spgemm {
namespace {

constexpr unsigned kWarps = 4;  ///< of a block, a row each
constexpr unsigned kMost = static_cast<unsigned>(kMostShort), kPerLane = kMost / kWarp;
using Key = unsigned long long;

__device__ Key key_of(Index column, unsigned number) { return static_cast<Key>(column) * kMost + number; }
__device__ Index column_of(Key key) { return static_cast<Index>(key / kMost); }

/// Calls visit(number, column, non-zero of A, position in B) for the products of a row; returns how many.
template <class Ptr, class Visit>
__device__ unsigned number_products(const Structures<Ptr>& f, Index row, unsigned lane, Visit visit) {
  unsigned before = 0;
  const Ptr end = f.a.row_ptr[row + 1];
  for (Ptr e = f.a.row_ptr[row]; e < end; ++e) {
    const Index k = f.a.col_idx[e];
    const Ptr from = f.b.row_ptr[k];
    const auto length = static_cast<unsigned>(f.b.row_ptr[k + 1] - from);
    for (unsigned l = lane; l < length; l += kWarp) {
      const Ptr q = from + static_cast<Ptr>(l);
      visit(before + l, f.b.col_idx[q], e, q);
    }
    before += length;
  }
  __syncwarp();
  return before;
}

/// Sorts keys[0, n), which lie in shared memory: key[r] of a lane becomes number lane * kPerLane + r. Behind
/// them stand keys that are greater than all.
__device__ void sort_row(const Key* keys, unsigned n, unsigned lane, Key (&key)[kPerLane]) {
#pragma unroll
  for (unsigned r = 0; r < kPerLane; ++r) {
    const unsigned i = r * kWarp + lane;
    key[r] = i < n ? keys[i] : ~Key{0};
  }
  sort_keys<kWarp>(key, lane);
  __syncwarp();
}

/// A warp a row of the list.
template <class Ptr>
__global__ void __launch_bounds__(kWarps* kWarp) count_rows(Structures<Ptr> f, RowList list, Index* counts) {
  __shared__ Key all_keys[kWarps][kMost];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const Offset number = Offset{blockIdx.x} * kWarps + warp;
  if (number >= list.count) return;  // the whole warp leaves
  Key* const keys = all_keys[warp];
  const unsigned n = number_products(
      f, list.rows[number], lane, [&](unsigned i, Index column, Ptr, Ptr) { keys[i] = key_of(column, i); });
  Key key[kPerLane];
  sort_row(keys, n, lane, key);
  Key before = __shfl_up_sync(kAllLanes, key[kPerLane - 1], 1);  // of the lane before
  Index found = 0;
#pragma unroll
  for (unsigned r = 0; r < kPerLane; ++r) {
    const unsigned i = lane * kPerLane + r;
    found += i < n && (i == 0 || column_of(before) != column_of(key[r]));
    before = key[r];
  }
  found = sum_over_warp(found);
  if (lane == 0) counts[list.rows[number]] = found;
}

/// A warp a row of the list.
template <class T, class Ptr>
__global__ void __launch_bounds__(kWarps* kWarp) multiply_rows(Factors<T, Ptr> f, RowList list, Output<T> c) {
  alignas(sizeof(ulonglong2)) __shared__ Key all_keys[kWarps][kMost];
  __shared__ T all_products[kWarps][kMost];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const Offset number = Offset{blockIdx.x} * kWarps + warp;
  if (number >= list.count) return;  // the whole warp leaves
  Key* const keys = all_keys[warp];
  T* const products = all_products[warp];
  const unsigned n =
      number_products(f.structures(), list.rows[number], lane, [&](unsigned i, Index column, Ptr e, Ptr q) {
        keys[i] = key_of(column, i);
        products[i] = f.a.values[e] * f.b.values[q];
      });
  Key key[kPerLane];
  sort_row(keys, n, lane, key);
#pragma unroll
  for (unsigned r = 0; r < kPerLane; r += 2) {  // 16 bytes a store
    reinterpret_cast<ulonglong2*>(keys)[(lane * kPerLane + r) / 2] = make_ulonglong2(key[r], key[r + 1]);
  }
  __syncwarp();
  Offset out = c.row_ptr[list.rows[number]];
  for (unsigned first = 0; first < n; first += kWarp) {
    const unsigned i = first + lane;
    const Key mine = i < n ? keys[i] : 0;
    const Index column = column_of(mine);
    const bool is_first = i < n && (i == 0 || column_of(keys[i - 1]) != column);
    const unsigned lanes = __ballot_sync(kAllLanes, is_first);
    if (is_first) {
      T sum = products[mine % kMost];
      for (unsigned j = i + 1; j < n; ++j) {
        const Key next = keys[j];
        if (column_of(next) != column) break;
        sum += products[next % kMost];
      }
      const Offset to = out + __popc(lanes & lanes_below(lane));
      c.col_idx[to] = column;
      c.values[to] = sum;
    }
    out += __popc(lanes);
  }
}

/// Rung 4's plan. The first bin by products is this file's; the bins by results hold the other rows only.
template <class T>
class SortedRows final : public BinsWithTables<T> {
 public:
  using BinsWithTables<T>::BinsWithTables;

  std::vector<Metric> metrics() const override {
    return {{"rows_sorted", static_cast<double>(this->by_products_[0].count), ""}};
  }

 protected:
  void count(const Structures<Offset>& f, Index* counts) override {
    this->bin_by_products(f, {kMostShort, this->slots(1) / 2, this->slots(2) / 2});
    count_short_rows(f, this->by_products_[0], counts, this->stream());
    this->count_in_bins(f, 1, counts);
  }

  void multiply(const Factors<T, Offset>& f, const Index* counts, const Output<T>& c) override {
    this->bin_by_results(counts, this->half_full(kMostShort));
    multiply_short_rows(f, this->by_products_[0], c, this->stream());
    this->multiply_bins(f, c);
  }

  void sort(const Output<T>& c) override {
    for (int k = 0; k < kBins; ++k) this->sort_list(this->by_results_[k], c);
  }
};

}  // namespace

void count_short_rows(const Structures<Offset>& f, RowList list, Index* counts, cudaStream_t stream) {
  launch(count_rows<Offset>,
         {.grid = blocks_for(list.count, kWarps), .block = kWarps * kWarp, .stream = stream}, f, list,
         counts);
}

template <class T>
void multiply_short_rows(const Factors<T, Offset>& f, RowList list, const Output<T>& c, cudaStream_t stream) {
  launch(multiply_rows<T, Offset>,
         {.grid = blocks_for(list.count, kWarps), .block = kWarps * kWarp, .stream = stream}, f, list, c);
}

STAGES_FOR_VALUES(multiply_short_rows)

}  // namespace stages::spgemm

namespace stages {

void add_sorted_rows(Registry& registry, const std::string& name, const BinSizes& sizes) {
  registry.add<spgemm::SortedRows>(
      {.name = name,
       .idea = "as bins, but rows of up to 128 products are sorted in registers, not hashed",
       .previous = "bins"},
      sizes);
}

}  // namespace stages
