// Rows of C with few products: write all of them out, sort them by column, add up neighbours.
//
// The idea: random matrices with 16 to 256 products a row have hardly two at one place. A hash table then
// looks each one up for nothing, and its results must be sorted anyway. Here every lane gets its share of the
// products, whatever rows of B they come from; all are sorted in registers at once, and equal columns side by
// side are one result.
//
//   list      the non-zeros of A's row that meet a non-empty row of B, with the number of products before each
//   expand    product q belongs to the last non-zero that has at most q products before it: a binary search in
//             shared memory; its key is (column, q) in one word
//   sort      bitonic, over the 2 to 16 keys of each lane and the lanes of a team: two registers of a lane are
//             compared by a minimum and a maximum, those of two lanes by a shuffle and one of the two
//   add up    the first of each run of equal columns adds up the run, in the order of q, which is the order of
//             A's non-zeros: the same sum in every run of the program
//
// Counting does the same with the columns alone and counts the runs. A small hash table of the warp's
// (table_rows.cu) would take about half as many instructions; but its lanes diverge while they probe, and on
// an H200 it takes nearly twice the time on a random matrix of 64 products a row.
//
//      team   keys a lane        products              rows a warp
//         8   2, 4, 8, 16        16, 32, 64, 128            4
//        16   16                 256                        2
//
// Small teams with many keys a lane: keys of one lane are compared without shuffles, and what a lane reads
// from B are then up to 16 loads that do not wait for each other. For 128 products that is some 160
// instructions of a warp a row; 32 lanes with 4 keys each would take 350.
//
// Input: rows with at most that many products. Cost: for n products n log^2 n / 4 comparisons; B's rows once
// when multiplying.
//
// Sources: expand-sort-compress is N. Bell, S. Dalton and L. Olson's ("Exposing fine-grained parallelism in
// algebraic multigrid methods", SIAM J. Sci. Comput. 34, 2012), there for the whole matrix at once; the sort
// is K. E. Batcher's ("Sorting networks and their applications", 1968).

#include "08_spgemm_multigpu/fast/forms.hpp"
#include "08_spgemm_multigpu/fast/sort_keys.hpp"
#include "common/gpu/launch.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages::spgemm {
namespace {

constexpr unsigned kBlock = 128;

/// The non-zeros of A's row that bring products: non-zero k brings those from start[k] on, product q of which
/// stands at position place[k] + q of B.
template <class Ptr, unsigned kMost>
struct Entries {
  unsigned short start[kMost];
  Ptr place[kMost];
  Ptr in_a[kMost];  ///< its own position in A
};

/// How many non-zeros there are, and products.
struct Totals {
  unsigned entries = 0;
  unsigned products = 0;
};

/// Fills `list` for row `row` (no row: row < 0). Every team of the warp comes.
template <unsigned kTeam, unsigned kMost, class Ptr>
__device__ Totals list_entries(const Structures<Ptr>& f, Index row, unsigned lane,
                               Entries<Ptr, kMost>& list) {
  Ptr first = row < 0 ? 0 : f.a.row_ptr[row];
  const Ptr end = row < 0 ? 0 : f.a.row_ptr[row + 1];
  const unsigned team_shift = threadIdx.x % kWarp / kTeam * kTeam;
  Totals total;
  for (; __any_sync(kAllLanes, first < end); first += static_cast<Ptr>(kTeam)) {
    const Ptr e = first + static_cast<Ptr>(lane);
    Ptr from = 0;
    unsigned length = 0;
    if (e < end) {
      const Index k = f.a.col_idx[e];
      from = f.b.row_ptr[k];
      length = static_cast<unsigned>(f.b.row_ptr[k + 1] - from);
    }
    unsigned up_to_here = length;
    for (unsigned d = 1; d < kTeam; d *= 2) {
      const unsigned before = __shfl_up_sync(kAllLanes, up_to_here, d, kTeam);
      if (lane >= d) up_to_here += before;
    }
    const unsigned bringing =
        (__ballot_sync(kAllLanes, length > 0) >> team_shift) & (kAllLanes >> (kWarp - kTeam));
    if (length > 0) {
      const unsigned k = total.entries + static_cast<unsigned>(__popc(bringing & lanes_below(lane)));
      const unsigned start = total.products + up_to_here - length;
      list.start[k] = static_cast<unsigned short>(start);
      list.place[k] = from - static_cast<Ptr>(start);
      list.in_a[k] = e;
    }
    total.entries += static_cast<unsigned>(__popc(bringing));
    total.products += __shfl_sync(kAllLanes, up_to_here, static_cast<int>(kTeam - 1), kTeam);
  }
  __syncwarp();
  return total;
}

/// The non-zero that product q belongs to.
template <class Ptr, unsigned kMost>
__device__ unsigned entry_of(const Entries<Ptr, kMost>& list, unsigned entries, unsigned q) {
  unsigned low = 0, high = entries;
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    if (list.start[middle] <= q) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/// One row a team.
template <unsigned kTeam, unsigned kPerLane, class Ptr>
__global__ void __launch_bounds__(kBlock) count_rows(Structures<Ptr> f, RowList list, Index* counts) {
  constexpr unsigned kMost = kTeam * kPerLane;
  __shared__ Entries<Ptr, kMost> all_entries[kBlock / kTeam];
  const unsigned team = threadIdx.x / kTeam, lane = threadIdx.x % kTeam;
  const unsigned number = blockIdx.x * (kBlock / kTeam) + team;
  const Index row = list.row(number);
  Entries<Ptr, kMost>& entries = all_entries[team];
  const Totals total = list_entries<kTeam>(f, row, lane, entries);
  unsigned key[kPerLane];
#pragma unroll
  for (unsigned r = 0; r < kPerLane; ++r) {
    const unsigned q = r * kTeam + lane;
    key[r] = ~0u;
    if (q < total.products) {
      const unsigned k = entry_of(entries, total.entries, q);
      key[r] = static_cast<unsigned>(f.b.col_idx[entries.place[k] + static_cast<Ptr>(q)]);
    }
  }
  sort_keys<kTeam>(key, lane);
  unsigned before = __shfl_up_sync(kAllLanes, key[kPerLane - 1], 1, kTeam);
  if (lane == 0) before = ~0u;
  int heads = 0;
#pragma unroll
  for (unsigned r = 0; r < kPerLane; ++r) {
    heads += key[r] != ~0u && key[r] != before;
    before = key[r];
  }
  for (unsigned d = kTeam / 2; d > 0; d /= 2) heads += __shfl_down_sync(kAllLanes, heads, d, kTeam);
  if (row >= 0 && lane == 0) counts[row] = heads;
}

/// Products in the order of columns. A word is left free after each lane's share, so that lanes which write
/// theirs side by side meet different banks.
template <class T, unsigned kTeam, unsigned kPerLane>
struct Sorted {
  Index columns[kTeam * (kPerLane + 1)];
  T values[kTeam * (kPerLane + 1)];

  static __device__ unsigned place(unsigned i) { return i + i / kPerLane; }
};

/// What a team of the multiplying kernel keeps in shared memory. The free words at the end put the teams of a
/// warp into different banks.
template <class T, class Ptr, unsigned kTeam, unsigned kPerLane>
struct Workspace {
  union {
    Entries<Ptr, kTeam * kPerLane> entries;  ///< until the products are there
    Sorted<T, kTeam, kPerLane> sorted;       ///< then
  };
  T products[kTeam * kPerLane];
  unsigned free_words[kTeam];
};

/// Writes the runs of equal columns; `n` products, sorted.
template <class T, unsigned kTeam, unsigned kPerLane>
__device__ void add_up(const Sorted<T, kTeam, kPerLane>& sorted, unsigned n, unsigned lane, Offset out,
                       const Output<T>& c) {
  const unsigned team_shift = threadIdx.x % kWarp / kTeam * kTeam;
  const auto column_of = [&](unsigned i) { return sorted.columns[sorted.place(i)]; };
  const auto value_of = [&](unsigned i) { return sorted.values[sorted.place(i)]; };
  for (unsigned first = 0; __any_sync(kAllLanes, first < n); first += kTeam) {
    const unsigned i = first + lane;
    const Index column = i < n ? column_of(i) : -1;
    const bool head = i < n && (i == 0 || column_of(i - 1) != column);
    const unsigned heads = (__ballot_sync(kAllLanes, head) >> team_shift) & (kAllLanes >> (kWarp - kTeam));
    if (head) {
      T sum = value_of(i);
      for (unsigned k = i + 1; k < n && column_of(k) == column; ++k) sum += value_of(k);
      const Offset to = out + __popc(heads & lanes_below(lane));
      c.col_idx[to] = column;
      c.values[to] = sum;
    }
    out += __popc(heads);
  }
}

/// The keys (column, number) of a team's products, and the products. The loads stand in loops of their own,
/// in which nothing waits for anything, so that all of a lane's are on their way at once.
template <unsigned kTeam, unsigned kPerLane, class Key, class T, class Ptr>
__device__ void read_products(const Factors<T, Ptr>& f, const Entries<Ptr, kTeam * kPerLane>& entries,
                              const Totals& total, unsigned lane, Key (&key)[kPerLane], T* products) {
  constexpr unsigned kMost = kTeam * kPerLane;
  Ptr in_a[kPerLane], in_b[kPerLane];
#pragma unroll
  for (unsigned r = 0; r < kPerLane; ++r) {
    const unsigned q = r * kTeam + lane, k = entry_of(entries, total.entries, q);
    in_a[r] = q < total.products ? entries.in_a[k] : 0;
    in_b[r] = q < total.products ? entries.place[k] + static_cast<Ptr>(q) : 0;
  }
  T factor[kPerLane], value[kPerLane];
#pragma unroll
  for (unsigned r = 0; r < kPerLane; ++r) {
    const bool is_there = r * kTeam + lane < total.products;
    key[r] = is_there ? static_cast<Key>(f.b.col_idx[in_b[r]]) * kMost + r * kTeam + lane : ~Key{0};
    value[r] = is_there ? f.b.values[in_b[r]] : T{0};
    factor[r] = is_there ? f.a.values[in_a[r]] : T{0};
  }
#pragma unroll
  for (unsigned r = 0; r < kPerLane; ++r) products[r * kTeam + lane] = factor[r] * value[r];
}

/// One row a team. Key: 32 bits where column and number of product fit, otherwise 64.
template <unsigned kTeam, unsigned kPerLane, class Key, class T, class Ptr>
__global__ void __launch_bounds__(kBlock) multiply_rows(Factors<T, Ptr> f, RowList list, Output<T> c) {
  constexpr unsigned kMost = kTeam * kPerLane;
  const unsigned team = threadIdx.x / kTeam, lane = threadIdx.x % kTeam;
  const unsigned number = blockIdx.x * (kBlock / kTeam) + team;
  const Index row = list.row(number);
  auto& w = dynamic_shared<Workspace<T, Ptr, kTeam, kPerLane>>()[team];
  const Totals total = list_entries<kTeam>(f.structures(), row, lane, w.entries);
  Key key[kPerLane];
  read_products<kTeam, kPerLane>(f, w.entries, total, lane, key, w.products);
  sort_keys<kTeam>(key, lane);
  __syncwarp();
#pragma unroll
  for (unsigned r = 0; r < kPerLane; ++r) {
    const unsigned i = lane * kPerLane + r;
    if (i < total.products) {
      w.sorted.columns[w.sorted.place(i)] = static_cast<Index>(key[r] / kMost);
      w.sorted.values[w.sorted.place(i)] = w.products[key[r] % kMost];
    }
  }
  __syncwarp();
  add_up(w.sorted, total.products, lane, row < 0 ? 0 : c.row_ptr[row] - c.base, c);
}

template <unsigned kTeam, unsigned kPerLane, class T, class Ptr>
void multiply_in_shape(const Factors<T, Ptr>& f, RowList list, const Output<T>& c, cudaStream_t stream) {
  constexpr std::size_t kBytes = kBlock / kTeam * sizeof(Workspace<T, Ptr, kTeam, kPerLane>);
  static_assert(kBytes <= kLeastSharedBytes);
  const bool fits = static_cast<std::uint64_t>(f.b.cols) * (kTeam * kPerLane) < ~std::uint32_t{0};
  launch_with_memory(fits ? multiply_rows<kTeam, kPerLane, unsigned, T, Ptr>
                          : multiply_rows<kTeam, kPerLane, unsigned long long, T, Ptr>,
                     {.grid = blocks_for(list.count, kBlock / kTeam),
                      .block = kBlock,
                      .shared_bytes = kBytes,
                      .stream = stream},
                     f, list, c);
}

template <unsigned kTeam, unsigned kPerLane, class Ptr>
void count_in_shape(const Structures<Ptr>& f, RowList list, Index* counts, cudaStream_t stream) {
  launch(count_rows<kTeam, kPerLane, Ptr>,
         {.grid = blocks_for(list.count, kBlock / kTeam), .block = kBlock, .stream = stream}, f, list,
         counts);
}

}  // namespace

template <class Ptr>
void count_sorted(const Structures<Ptr>& f, RowList list, Form form, Index* counts, cudaStream_t stream) {
  if (form == Form::sorted_16) return count_in_shape<8, 2>(f, list, counts, stream);
  if (form == Form::sorted_32) return count_in_shape<8, 4>(f, list, counts, stream);
  if (form == Form::sorted_64) return count_in_shape<8, 8>(f, list, counts, stream);
  if (form == Form::sorted_128) return count_in_shape<8, 16>(f, list, counts, stream);
  count_in_shape<16, 16>(f, list, counts, stream);
}

template <class T, class Ptr>
void multiply_sorted(const Factors<T, Ptr>& f, RowList list, Form form, const Output<T>& c,
                     cudaStream_t stream) {
  if (form == Form::sorted_16) return multiply_in_shape<8, 2>(f, list, c, stream);
  if (form == Form::sorted_32) return multiply_in_shape<8, 4>(f, list, c, stream);
  if (form == Form::sorted_64) return multiply_in_shape<8, 8>(f, list, c, stream);
  if (form == Form::sorted_128) return multiply_in_shape<8, 16>(f, list, c, stream);
  multiply_in_shape<16, 16>(f, list, c, stream);
}

STAGES_FOR_POINTERS(count_sorted)
STAGES_FOR_VALUES_AND_POINTERS(multiply_sorted)

}  // namespace stages::spgemm
