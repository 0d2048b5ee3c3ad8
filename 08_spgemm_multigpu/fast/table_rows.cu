// Rows of C by hashing: a table of columns and sums in shared memory, for a warp or for a block.
//
// The idea: a row whose columns are spread over a wide range, too many for registers, goes into a hash table
// of which at most half is taken; where another column has a slot, the next one is probed. Then the taken
// slots are listed, the list is sorted (up to 512 results in the registers of the warp, which takes a third of
// the instructions of a sort in shared memory), and the row is written in order. Three things differ from
// 2_hash_warp_per_row.cu:
//
//   the size   each bin has a table for its own longest row: a row of 100 results does not clear 4,096 slots,
//              and many tables fit an SM
//   the sums   atomicAdd on a float in shared memory is a loop of load, add, compare-and-swap, and its order
//              changes from run to run. A warp that adds one row of B at a time needs atomics only to claim
//              slots, and its sums run in one order. Where rows of B are short it takes products of several at
//              once, and those of one column are added up by shuffles before
//   a block    has one table for its eight or sixteen warps. Each warp takes a slice of the columns, of all
//              rows of B: two binary searches find it, a lane for each row of B. No two warps add to one
//              column, and no barrier is needed until all are done. The slices are the quantiles of the
//              longest row of B, about equally full where the columns are skewed. Each warp sorts its own
//              slice, in registers. (One sort by the whole block, in shared memory, took 60 % of the
//              instructions.)
//
// Counting needs no order and no slices: the warps of a block take different rows of B and claim slots.
//
// Input: counting: rows with at most slots / 2 products; multiplying: rows with at most slots / 2 results.
// Cost: one or two probes a product, for n results n log^2 n / 4 comparisons; a block also searches each row
// of B twice for each warp.

#include "08_spgemm_multigpu/fast/forms.hpp"
#include "08_spgemm_multigpu/fast/sort_keys.hpp"
#include "08_spgemm_multigpu/fast/tables.hpp"
#include "08_spgemm_multigpu/fast/walks_at_once.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages::spgemm {
namespace {

constexpr unsigned kWarpsOfBlock = 4;   ///< where a warp has a row
constexpr unsigned kWarpsOfTable = 16;  ///< where a block has a row: at most

/// A row of so many columns at most gets no more slots than three times as many: fewer to clear, and to list.
__device__ inline unsigned slots_for(Offset columns, unsigned most_slots) {
  return static_cast<unsigned>(min(3 * columns, Offset{most_slots}));
}

__device__ inline void clear_keys(Index* keys, unsigned slots, unsigned me, unsigned members) {
  for (unsigned s = me; s < slots; s += members) keys[s] = kFree;
}

template <class Ptr>
__global__ void __launch_bounds__(kWarpsOfBlock* kWarp)
    count_by_warps(Structures<Ptr> f, RowList list, unsigned slots, Index* counts) {
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const unsigned number = blockIdx.x * kWarpsOfBlock + warp;
  if (number >= list.size()) return;  // the whole warp leaves
  const Index row = list.rows[number];
  Index* const keys = dynamic_shared<Index>() + warp * slots;
  clear_keys(keys, slots, lane, kWarp);
  __syncwarp();
  Index found = 0;
  walk_columns_together(f, row, 0, 1, lane, [&](Index column) {
    bool is_new = false;
    claim(keys, slots, column, is_new);
    found += is_new;
  });
  found = sum_over_warp(found);
  if (lane == 0) counts[row] = found;
}

template <class Ptr>
__global__ void __launch_bounds__(kWarpsOfTable* kWarp)
    count_by_blocks(Structures<Ptr> f, RowList list, unsigned most_slots, const Offset* products,
                    Index* counts) {
  __shared__ Index total;
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  Index* const keys = dynamic_shared<Index>();
  take_rows(list, 1, [&](Index row, unsigned, Index) {
    const unsigned slots = slots_for(products[row], most_slots);
    clear_keys(keys, slots, threadIdx.x, blockDim.x);
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    Index found = 0;
    walk_columns_together(f, row, warp, kWarpsOfTable, lane, [&](Index column) {
      bool is_new = false;
      claim(keys, slots, column, is_new);
      found += is_new;
    });
    found = sum_over_warp(found);
    if (lane == 0) atomicAdd(&total, found);
    __syncthreads();
    if (threadIdx.x == 0) counts[row] = total;
  });
}

/// A table and the list of its columns, for half as many as there are slots.
template <class T>
struct Table {
  T* sums;
  Index* keys;
  Index* list;
  unsigned slots;

  __device__ Table(unsigned char* memory, unsigned slots_)
      : sums(reinterpret_cast<T*>(memory)),
        keys(reinterpret_cast<Index*>(sums + slots_)),
        list(keys + slots_),
        slots(slots_) {}

  __device__ void clear(unsigned me, unsigned members) const {
    for (unsigned s = me; s < slots; s += members) {
      keys[s] = kFree;
      sums[s] = T{0};
    }
  }
  /// Returns whether the column is new.
  __device__ bool add(Index column, T product) const {
    bool is_new = false;
    sums[claim_in_roomy(keys, slots, column, is_new)] += product;
    return is_new;
  }
};

/// Puts the columns of a warp's table on its list; returns how many there are.
template <class T>
__device__ Index list_columns(const Table<T>& t, unsigned lane) {
  Index at = 0;
  for (unsigned first = 0; first < t.slots; first += kWarp) {
    const unsigned s = first + lane;
    const Index column = s < t.slots ? t.keys[s] : kFree;
    const unsigned taken = __ballot_sync(kAllLanes, column != kFree);
    if (column != kFree) t.list[at + __popc(taken & lanes_below(lane))] = column;
    at += __popc(taken);
  }
  return at;
}

/// Writes `results` columns of a sorted list, and their sums, from position `out` of C on; by one warp.
template <class T>
__device__ void write_row(const Table<T>& t, const Index* list, Index results, unsigned lane, Offset out,
                          const Output<T>& c) {
  for (Index i = static_cast<Index>(lane); i < results; i += Index{kWarp}) {
    const Index column = list[i];
    c.col_idx[out + i] = column;
    c.values[out + i] = t.sums[find(t.keys, t.slots, column)];
  }
}

/// Sorts the list of a warp's table: in registers, kPerLane columns a lane, or in place where it may be
/// longer (kPerLane = 0).
template <unsigned kPerLane>
__device__ void sort_list(Index* list, Index results, unsigned lane) {
  if constexpr (kPerLane == 0) {
    sort_numbers(list, results, lane, kWarp, [] { __syncwarp(); });
  } else {
    unsigned key[kPerLane];
#pragma unroll
    for (unsigned r = 0; r < kPerLane; ++r) {
      const Index i = static_cast<Index>(r * kWarp + lane);
      key[r] = i < results ? static_cast<unsigned>(list[i]) : ~0u;
    }
    sort_keys<kWarp>(key, lane);
    __syncwarp();
#pragma unroll
    for (unsigned r = 0; r < kPerLane; ++r) {
      const Index i = static_cast<Index>(lane * kPerLane + r);
      if (i < results) list[i] = static_cast<Index>(key[r]);
    }
    __syncwarp();
  }
}

template <unsigned kPerLane, class T, class Ptr>
__global__ void __launch_bounds__(kWarpsOfBlock* kWarp)
    multiply_by_warps(Factors<T, Ptr> f, RowList list, unsigned slots, Output<T> c) {
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const unsigned number = blockIdx.x * kWarpsOfBlock + warp;
  if (number >= list.size()) return;  // the whole warp leaves
  const Index row = list.rows[number];
  const Table<T> table(
      dynamic_shared<unsigned char>() + warp * block_table_bytes<T>(static_cast<Index>(slots)), slots);
  table.clear(lane, kWarp);
  __syncwarp();
  walk_short_products<true>(f, row, {}, lane, [&](Index column, T product) { table.add(column, product); });
  const Index results = list_columns(table, lane);
  __syncwarp();
  sort_list<kPerLane>(table.list, results, lane);
  write_row(table, table.list, results, lane, c.row_ptr[row] - c.base, c);
}

/// Cuts the columns into a slice for each warp: at equal parts of the longest row of B.
template <class Ptr>
__device__ void cut_slices(const Structures<Ptr>& f, Index row, Index* cuts) {
  __shared__ unsigned long long longest;  // its length, and below it the number of its non-zero in A's row
  if (threadIdx.x == 0) longest = 0;
  __syncthreads();
  const Ptr begin = f.a.row_ptr[row], end = f.a.row_ptr[row + 1];
  unsigned long long mine = 0;
  for (Ptr e = begin + static_cast<Ptr>(threadIdx.x); e < end; e += static_cast<Ptr>(blockDim.x)) {
    const Index k = f.a.col_idx[e];
    const auto length = static_cast<unsigned long long>(f.b.row_ptr[k + 1] - f.b.row_ptr[k]);
    mine = max(mine, length << 32 | static_cast<unsigned long long>(e - begin));
  }
  atomicMax(&longest, mine);
  __syncthreads();
  const unsigned warps = blockDim.x / kWarp;
  if (threadIdx.x <= warps) {
    const Index k = f.a.col_idx[begin + static_cast<Ptr>(longest & 0xffffffffu)];
    const Ptr from = f.b.row_ptr[k], length = f.b.row_ptr[k + 1] - from;
    const Ptr part = static_cast<Ptr>(static_cast<Offset>(length) * threadIdx.x / warps);
    cuts[threadIdx.x] = threadIdx.x == 0 ? 0 : threadIdx.x == warps ? f.b.cols : f.b.col_idx[from + part];
  }
  __syncthreads();
}

/// Which slice a column lies in: the last that does not begin behind it.
__device__ inline unsigned slice_of(const Index* cuts, unsigned warps, Index column) {
  unsigned low = 0;
  for (unsigned step = kWarpsOfTable / 2; step > 0; step /= 2) {
    if (low + step < warps && cuts[low + step] <= column) low += step;
  }
  return low;
}

/// Deals the columns of a block's table to its list, slice by slice: slice w is [begin[w], begin[w + 1]).
/// `mine`: how many columns this warp's slice has.
template <class T>
__device__ void list_by_slices(const Table<T>& t, const Index* cuts, Index mine, Index* begin) {
  __shared__ Index counts[kWarpsOfTable], next[kWarpsOfTable];
  const unsigned warps = blockDim.x / kWarp;
  if (threadIdx.x % kWarp == 0) counts[threadIdx.x / kWarp] = mine;
  __syncthreads();
  if (threadIdx.x <= warps) {
    Index before = 0;
    for (unsigned w = 0; w < threadIdx.x; ++w) before += counts[w];
    begin[threadIdx.x] = before;
    if (threadIdx.x < warps) next[threadIdx.x] = before;
  }
  __syncthreads();
  for (unsigned s = threadIdx.x; s < t.slots; s += blockDim.x) {
    const Index column = t.keys[s];
    if (column != kFree) t.list[atomicAdd(&next[slice_of(cuts, warps, column)], 1)] = column;
  }
  __syncthreads();
}

/// Sorts a list of any length, in registers if it is short enough.
__device__ inline void sort_any_list(Index* list, Index results, unsigned lane) {
  if (results <= 4 * Index{kWarp}) return sort_list<4>(list, results, lane);
  if (results <= 8 * Index{kWarp}) return sort_list<8>(list, results, lane);
  if (results <= 16 * Index{kWarp}) return sort_list<16>(list, results, lane);
  sort_list<0>(list, results, lane);
}

template <class T, class Ptr>
__global__ void __launch_bounds__(kWarpsOfTable* kWarp, 2)
    multiply_by_blocks(Factors<T, Ptr> f, RowList list, unsigned most_slots, Output<T> c) {
  __shared__ Index cuts[kWarpsOfTable + 1], begin[kWarpsOfTable + 1];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  take_rows(list, 1, [&](Index row, unsigned, Index) {
    const Offset out = c.row_ptr[row] - c.base;
    const Table<T> table(dynamic_shared<unsigned char>(),
                         slots_for(c.row_ptr[row + 1] - c.row_ptr[row], most_slots));
    table.clear(threadIdx.x, blockDim.x);
    cut_slices(f.structures(), row, cuts);  // ends with a barrier
    Index found = 0;
    walk_short_products<false>(f, row, {cuts[warp], cuts[warp + 1]}, lane,
                               [&](Index column, T product) { found += table.add(column, product); });
    list_by_slices(table, cuts, sum_over_warp(found), begin);
    const Index mine = begin[warp], results = begin[warp + 1] - mine;
    sort_any_list(table.list + mine, results, lane);
    write_row(table, table.list + mine, results, lane, out + mine, c);
  });
}

}  // namespace

std::size_t count_in_warp_tables_bytes(Index slots) {
  return kWarpsOfBlock * static_cast<std::size_t>(slots) * sizeof(Index);
}
std::size_t count_in_block_tables_bytes(Index slots) {
  return static_cast<std::size_t>(slots) * sizeof(Index);
}
template <class T>
std::size_t multiply_in_warp_tables_bytes(Index slots) {
  return kWarpsOfBlock * block_table_bytes<T>(slots);
}

template <class Ptr>
void count_in_warp_tables(const Structures<Ptr>& f, RowList list, Index slots, Index* counts,
                          cudaStream_t stream) {
  launch_with_memory(count_by_warps<Ptr>,
                     {.grid = blocks_for(list.count, kWarpsOfBlock),
                      .block = kWarpsOfBlock * kWarp,
                      .shared_bytes = count_in_warp_tables_bytes(slots),
                      .stream = stream},
                     f, list, static_cast<unsigned>(slots), counts);
}

template <class Ptr>
void count_in_block_tables(const Structures<Ptr>& f, RowList list, Index slots, const Offset* products,
                           Index* counts, cudaStream_t stream) {
  launch_with_memory(count_by_blocks<Ptr>,
                     {.grid = blocks_for_rows(list),
                      .block = kWarpsOfTable * kWarp,
                      .shared_bytes = count_in_block_tables_bytes(slots),
                      .stream = stream},
                     f, list, static_cast<unsigned>(slots), products, counts);
}

template <class T, class Ptr>
void multiply_in_warp_tables(const Factors<T, Ptr>& f, RowList list, Index slots, const Output<T>& c,
                             cudaStream_t stream) {
  launch_with_memory(
      slots / 2 <= 4 * Index{kWarp} ? multiply_by_warps<4, T, Ptr> : multiply_by_warps<16, T, Ptr>,
      {.grid = blocks_for(list.count, kWarpsOfBlock),
       .block = kWarpsOfBlock * kWarp,
       .shared_bytes = multiply_in_warp_tables_bytes<T>(slots),
       .stream = stream},
      f, list, static_cast<unsigned>(slots), c);
}

template <class T, class Ptr>
void multiply_in_block_tables(const Factors<T, Ptr>& f, RowList list, Index slots, Index warps,
                              const Output<T>& c, cudaStream_t stream) {
  launch_with_memory(multiply_by_blocks<T, Ptr>,
                     {.grid = blocks_for_rows(list),
                      .block = static_cast<unsigned>(warps) * kWarp,
                      .shared_bytes = block_table_bytes<T>(slots),
                      .stream = stream},
                     f, list, static_cast<unsigned>(slots), c);
}

STAGES_FOR_VALUES(multiply_in_warp_tables_bytes)
// In this order: in another one nvcc gives a kernel other registers.
#define STAGES_INSTANTIATE(Ptr)                                \
  STAGES_INSTANTIATE_ONE(count_in_warp_tables, Ptr)            \
  STAGES_INSTANTIATE_ONE(count_in_block_tables, Ptr)           \
  STAGES_INSTANTIATE_ONE(multiply_in_warp_tables, float, Ptr)  \
  STAGES_INSTANTIATE_ONE(multiply_in_warp_tables, double, Ptr) \
  STAGES_INSTANTIATE_ONE(multiply_in_block_tables, float, Ptr) \
  STAGES_INSTANTIATE_ONE(multiply_in_block_tables, double, Ptr)
STAGES_INSTANTIATE(std::int32_t)
STAGES_INSTANTIATE(Offset)

}  // namespace stages::spgemm
