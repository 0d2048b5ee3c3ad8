// Rows of C of which most is one long row of B: that row and the few products beside it are merged.
//
// The idea: next to a hub, as in circuits with supply rails and in graphs of people, a row of C is the hub's
// row of B, scaled, but for some products. Tables and bitmaps would place and sort thousands of columns that
// lie in order already. Here a block sorts only the others:
//
//   find     the longest row of B, and where the products of the others stand, one for each thread
//   sort     a thread counts the keys (column, non-zero of A) below its own, and that is its product's place
//   add up   equal columns, in the order of A's non-zeros; a binary search looks for each sum's column in the
//            long row: `place`, how many of its columns come before
//   write    a column of the long row moves on by the new columns before it, which is a binary search among
//            their places; a sum whose column is there already is added last
//
// Input: rows with a product for each thread at most beside the longest row of B (none: the row is copied).
// Cost: the long row read and written once, a search of a few steps for each of its columns.

#include "08_spgemm_multigpu/fast/forms.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages::spgemm {
namespace {

constexpr unsigned kBlock = kMostBeside;
constexpr unsigned kWarps = kBlock / kWarp;
using Key = unsigned long long;

/// What the block knows of a row.
template <class Ptr>
struct Workspace {
  Key longest;  ///< row of B: its length, then how many non-zeros of A are left from there on
  unsigned count;
  Ptr source[kBlock];   ///< of a product: where in B
  Index entry[kBlock];  ///< which non-zero of A's row
  Key key[kBlock], sorted[kBlock];
  unsigned from[kBlock];     ///< the product of a sorted key
  Ptr places[kBlock];        ///< of new columns, ascending
  unsigned in_warp[kWarps];  ///< new columns
};

/// Columns beside the long row, one for each of the first threads; a new one is none of the long row's.
template <class Ptr>
struct Column {
  bool is_sum = false;  ///< the first of its products
  bool is_new = false;
  Index column = 0;
  Ptr place = 0;             ///< columns of the long row before it
  unsigned before = 0;       ///< new columns before it
  unsigned new_columns = 0;  ///< of all threads
};

template <class Ptr>
__device__ Ptr long_entry(const Workspace<Ptr>& w, const Structure<Ptr>& a, Index row) {
  return a.row_ptr[row + 1] - static_cast<Ptr>(w.longest & 0xffffffffu);
}

template <class Ptr>
__device__ void find_products(Workspace<Ptr>& w, const Structures<Ptr>& f, Index row) {
  const Ptr begin = f.a.row_ptr[row], end = f.a.row_ptr[row + 1];
  if (threadIdx.x == 0) w.longest = w.count = 0;
  __syncthreads();
  Key longest = 0;
  for (Ptr e = begin + static_cast<Ptr>(threadIdx.x); e < end; e += Ptr{kBlock}) {
    const Index k = f.a.col_idx[e];
    const Ptr length = f.b.row_ptr[k + 1] - f.b.row_ptr[k];
    longest = max(longest, static_cast<Key>(length) << 32 | static_cast<Key>(end - e));
  }
  if (longest > 0) atomicMax(&w.longest, longest);
  __syncthreads();
  const Ptr left_out = long_entry(w, f.a, row);
  for (Ptr e = begin + static_cast<Ptr>(threadIdx.x); e < end; e += Ptr{kBlock}) {
    const Index k = f.a.col_idx[e];
    const Ptr from = f.b.row_ptr[k];
    const auto length = static_cast<unsigned>(e == left_out ? 0 : f.b.row_ptr[k + 1] - from);
    if (length == 0) continue;
    const unsigned first = atomicAdd(&w.count, length);
    for (unsigned i = 0; i < length; ++i) {
      w.source[first + i] = from + static_cast<Ptr>(i);
      w.entry[first + i] = static_cast<Index>(e - begin);
    }
  }
  __syncthreads();
}

/// Sorts the products and looks for their columns in the long row.
template <class Ptr>
__device__ Column<Ptr> find_columns(Workspace<Ptr>& w, const Structures<Ptr>& f, Index row) {
  const unsigned me = threadIdx.x, lane = me % kWarp, count = w.count;
  Key key = 0;
  if (me < count) {
    key = static_cast<Key>(f.b.col_idx[w.source[me]]) << 32 | static_cast<Key>(w.entry[me]);
    w.key[me] = key;
  }
  __syncthreads();
  if (me < count) {
    unsigned below = 0;
    for (unsigned i = 0; i < count; ++i) below += w.key[i] < key;
    w.sorted[below] = key;
    w.from[below] = me;
  }
  __syncthreads();
  Column<Ptr> mine;
  if (me < count) {
    mine.column = static_cast<Index>(w.sorted[me] >> 32);
    mine.is_sum = me == 0 || static_cast<Index>(w.sorted[me - 1] >> 32) != mine.column;
  }
  if (mine.is_sum) {
    const Index k = f.a.col_idx[long_entry(w, f.a, row)];
    const Ptr from = f.b.row_ptr[k], to = f.b.row_ptr[k + 1];
    const Ptr at = first_not_below(f.b.col_idx, from, to, mine.column);
    mine.place = at - from;
    mine.is_new = at == to || f.b.col_idx[at] != mine.column;
  }
  const unsigned lanes = __ballot_sync(kAllLanes, mine.is_new);
  if (lane == 0) w.in_warp[me / kWarp] = static_cast<unsigned>(__popc(lanes));
  __syncthreads();
  mine.before = static_cast<unsigned>(__popc(lanes & lanes_below(lane)));
  for (unsigned warp = 0; warp < kWarps; ++warp) {
    if (warp < me / kWarp) mine.before += w.in_warp[warp];
    mine.new_columns += w.in_warp[warp];
  }
  return mine;
}

template <class Ptr>
__global__ void __launch_bounds__(kBlock) count_rows(Structures<Ptr> f, RowList list, Index* counts) {
  __shared__ Workspace<Ptr> w;
  take_rows(list, 1, [&](Index row, unsigned, Index) {
    find_products(w, f, row);
    const unsigned new_columns = find_columns(w, f, row).new_columns;
    if (threadIdx.x == 0) counts[row] = static_cast<Index>((w.longest >> 32) + new_columns);
  });
}

/// Each of `parts` blocks sorts what a row needs, and writes its part of the long row.
template <class T, class Ptr>
__global__ void __launch_bounds__(kBlock)
    multiply_rows(Factors<T, Ptr> f, RowList list, unsigned parts, Output<T> c) {
  __shared__ Workspace<Ptr> w;
  __shared__ T values[kBlock];
  take_rows(list, parts, [&](Index row, unsigned part, Index) {
    const unsigned me = threadIdx.x;
    find_products(w, f.structures(), row);
    if (me < w.count) values[me] = f.a.values[f.a.row_ptr[row] + w.entry[me]] * f.b.values[w.source[me]];
    const Column<Ptr> mine = find_columns(w, f.structures(), row);
    T sum = 0;
    for (unsigned i = me; mine.is_sum && i < w.count && static_cast<Index>(w.sorted[i] >> 32) == mine.column;
         ++i)
      sum += values[w.from[i]];
    const Offset out = c.row_ptr[row] - c.base;
    const Offset mine_at = out + mine.place + mine.before;
    if (mine.is_new) w.places[mine.before] = mine.place;
    if (mine.is_new && part == 0) {
      c.col_idx[mine_at] = mine.column;
      c.values[mine_at] = sum;
    }
    __syncthreads();
    const Ptr entry = long_entry(w, f.structures().a, row);
    const Index k = f.a.col_idx[entry];
    const T factor = f.a.values[entry];
    const Ptr from = f.b.row_ptr[k], length = f.b.row_ptr[k + 1] - from;
    const Piece<Ptr> own = part_of<Ptr>({0, length}, part, parts);
    for (Ptr q = own.from + static_cast<Ptr>(me); q < own.to; q += Ptr{kBlock}) {
      unsigned before = 0, end = mine.new_columns;  // new columns whose place is at most q
      while (before < end) {
        const unsigned middle = (before + end) / 2;
        if (w.places[middle] <= q) {
          before = middle + 1;
        } else {
          end = middle;
        }
      }
      c.col_idx[out + q + before] = f.b.col_idx[from + q];
      c.values[out + q + before] = factor * f.b.values[from + q];
    }
    __syncthreads();
    if (mine.is_sum && !mine.is_new && mine.place >= own.from && mine.place < own.to)
      c.values[mine_at] += sum;
  });
}

}  // namespace

template <class Ptr>
void count_merged(const Structures<Ptr>& f, RowList list, Index* counts, cudaStream_t stream) {
  launch(count_rows<Ptr>, {.grid = blocks_for_rows(list), .block = kBlock, .stream = stream}, f, list,
         counts);
}

template <class T, class Ptr>
void multiply_merged(const Factors<T, Ptr>& f, RowList list, int sms, const Output<T>& c,
                     cudaStream_t stream) {
  constexpr Index kBlocksOfSm = 8, kMost = 64;
  const Index parts = std::clamp<Index>(kBlocksOfSm * sms / list.count, 1, kMost);
  launch(multiply_rows<T, Ptr>, {.grid = blocks_for_rows(list, parts), .block = kBlock, .stream = stream}, f,
         list, static_cast<unsigned>(parts), c);
}

STAGES_FOR_POINTERS(count_merged)
STAGES_FOR_VALUES_AND_POINTERS(multiply_merged)

}  // namespace stages::spgemm
