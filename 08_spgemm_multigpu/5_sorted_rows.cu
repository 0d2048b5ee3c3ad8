// SpGEMM with rows in bins, and short rows sorted in place of hashed.
//
// The idea: the rows of a random matrix have hardly two products in one column. A hash table finds nothing to
// add there, and its results must be sorted afterwards. So the bin of the shortest rows, of up to 128
// products, does it the other way round:
//
//   expand   write out all products of the row, in the order of A's entries: product q gets the key
//            (column, q)
//   sort     a warp sorts 128 keys in its registers, 4 a lane. Two keys of one lane are compared by a minimum
//            and a maximum, those of two lanes after a shuffle (sort_keys.hpp)
//   add up   equal columns are neighbours now. The first of them adds up the others, in the order of q: the
//            same bits in each run
//
// The row is sorted then, in the order in which C wants it. There is no table to clear, no probe and no
// atomic operation. To count, the same keys are sorted, and the columns that differ from the one before are
// counted; here that is no faster than counting by hashing, what gains is the rest. All other rows are hashed
// as in rung 4.
//
// Two smaller changes come with it. The first bin holds rows of up to 128 products, where rung 4 had 64. And
// its kernels have blocks of four warps, a row each, where rung 4 has blocks of one.
//
// Input: any CSR matrices. Cost: for a short row some 28 steps of the sort, whatever its length.
//
// Sources: expand-sort-compress is N. Bell, S. Dalton and L. Olson's ("Exposing fine-grained parallelism in
// algebraic multigrid methods", SIAM J. Sci. Comput. 34, 2012); the sort is K. E. Batcher's ("Sorting
// networks and their applications", 1968).

#include "08_spgemm_multigpu/row_bins.hpp"
#include "08_spgemm_multigpu/row_tables.hpp"
#include "08_spgemm_multigpu/short_rows.hpp"
#include "08_spgemm_multigpu/sort_keys.hpp"

namespace stages::spgemm {
namespace {

constexpr unsigned kWarps = 4;  ///< of a block, a row each
constexpr unsigned kMost = static_cast<unsigned>(kMostShort), kPerLane = kMost / kWarp;
using Key = unsigned long long;

__device__ Key key_of(Index column, unsigned number) {
  return static_cast<Key>(column) * kMost + number;
}
__device__ Index column_of(Key key) {
  return static_cast<Index>(key / kMost);
}

/// Calls visit(number, column, entry of A, position in B) for the products of a row; returns how many.
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

/// Sorts keys[0, n), in shared memory, by way of registers.
__device__ void sort_row(Key* keys, unsigned n, unsigned lane) {
  Key key[kPerLane];
#pragma unroll
  for (unsigned r = 0; r < kPerLane; ++r) {
    const unsigned i = r * kWarp + lane;
    key[r] = i < n ? keys[i] : ~Key{0};
  }
  sort_keys<kWarp>(key, lane);
  __syncwarp();
#pragma unroll
  for (unsigned r = 0; r < kPerLane; ++r) keys[lane * kPerLane + r] = key[r];
  __syncwarp();
}

/// Whether a result begins at key i.
__device__ bool is_first(const Key* keys, unsigned i, unsigned n) {
  return i < n && (i == 0 || column_of(keys[i - 1]) != column_of(keys[i]));
}

/// A warp a row of the list.
template <class Ptr>
__global__ void __launch_bounds__(kWarps* kWarp) count_rows(Structures<Ptr> f, RowList list, Index* counts) {
  __shared__ Key all_keys[kWarps][kMost];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const unsigned number = blockIdx.x * kWarps + warp;
  if (number >= static_cast<unsigned>(list.count)) return;  // the whole warp leaves
  Key* const keys = all_keys[warp];
  const unsigned n = number_products(
      f, list.rows[number], lane, [&](unsigned i, Index column, Ptr, Ptr) { keys[i] = key_of(column, i); });
  sort_row(keys, n, lane);
  Index found = 0;
  for (unsigned i = lane; i < n; i += kWarp) found += is_first(keys, i, n);
  found = sum_over_warp(found);
  if (lane == 0) counts[list.rows[number]] = found;
}

/// A warp a row of the list.
template <class T, class Ptr>
__global__ void __launch_bounds__(kWarps* kWarp) multiply_rows(Factors<T, Ptr> f, RowList list, Output<T> c) {
  __shared__ Key all_keys[kWarps][kMost];
  __shared__ T all_products[kWarps][kMost];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const unsigned number = blockIdx.x * kWarps + warp;
  if (number >= static_cast<unsigned>(list.count)) return;  // the whole warp leaves
  Key* const keys = all_keys[warp];
  T* const products = all_products[warp];
  const unsigned n =
      number_products(f.structures(), list.rows[number], lane, [&](unsigned i, Index column, Ptr e, Ptr q) {
        keys[i] = key_of(column, i);
        products[i] = f.a.values[e] * f.b.values[q];
      });
  sort_row(keys, n, lane);
  Offset out = c.row_ptr[list.rows[number]];
  for (unsigned first = 0; first < n; first += kWarp) {
    const unsigned i = first + lane;
    const bool mine = is_first(keys, i, n);
    const unsigned lanes = __ballot_sync(kAllLanes, mine);
    if (mine) {
      T sum = products[keys[i] % kMost];
      for (unsigned j = i + 1; j < n && !is_first(keys, j, n); ++j) sum += products[keys[j] % kMost];
      const Offset to = out + __popc(lanes & lanes_below(lane));
      c.col_idx[to] = column_of(keys[i]);
      c.values[to] = sum;
    }
    out += __popc(lanes);
  }
}

/// Rung 4's plan, whose first bin by products is sorted here.
template <class T>
class SortedRows final : public BinsPlan<T> {
 public:
  SortedRows(const SpgemmProblem<T>& problem, Exec& exec, const BinSizes& sizes)
      : BinsPlan<T>(problem, exec, sizes), tables_(problem, this->exec(), sizes) {}

  static Cost cost(const SpgemmProblem<T>& problem) {
    Cost cost = BinsPlan<T>::cost(problem);
    cost.memory += RowTables<T>::bytes(problem);
    return cost;
  }

  std::vector<Metric> metrics() const override {
    return {{"rows_sorted", static_cast<double>(this->by_products_[0].count), ""}};
  }

 protected:
  void count(const Structures<Offset>& f, Index* counts) override {
    this->bin_by_products(f, {kMostShort, this->slots(1) / 2, this->slots(2) / 2});
    count_short_rows(f, this->by_products_[0], counts, this->stream());
    for (int k = 1; k < kBins - 1; ++k) tables_.count(f, this->by_products_[k], this->slots(k), counts);
    tables_.count_long(f, this->by_products_[kBins - 1], counts);
  }

  void multiply(const Factors<T, Offset>& f, const Index* counts, const Output<T>& c) override {
    this->bin_by_results(counts, this->half_full(kMostShort));
    multiply_short_rows(f, this->by_products_[0], c, this->stream());
    for (int k = 0; k < kBins - 1; ++k) tables_.multiply(f, this->by_results_[k], this->slots(k), c);
    tables_.multiply_long(f, this->by_results_[kBins - 1], c);
  }

  void sort(const Output<T>& c) override {
    for (int k = 0; k < kBins; ++k) this->sort_list(this->by_results_[k], c);
  }

 private:
  RowTables<T> tables_;
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
template void multiply_short_rows(const Factors<float, Offset>&, RowList, const Output<float>&, cudaStream_t);
template void multiply_short_rows(const Factors<double, Offset>&, RowList, const Output<double>&,
                                  cudaStream_t);

}  // namespace stages::spgemm

namespace stages {

void add_sorted_rows(Registry& registry, const std::string& name, const BinSizes& sizes) {
  registry.add<spgemm::SortedRows>(
      {.name = name,
       .idea = "as bins, but rows of up to 128 products are sorted in registers, not hashed",
       .needs = {.gpu = true}},
      sizes);
}

}  // namespace stages
