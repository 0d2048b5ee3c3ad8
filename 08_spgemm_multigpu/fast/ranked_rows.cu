// Long rows of C in a range of columns that a bitmap holds: a block a row, sums without gaps.
//
// The idea: dense windows (window_rows.cu) are cleared and written column by column, and each non-zero of A is
// looked for in each of them. Where a row fills a few percent of its range, that costs more than the products.
// A bitmap of the whole range is 16 KB for 131,072 columns; with the number of bits before each word it says
// where in the row a column stands. So only the sums of the row's own results are kept beside it:
//
//   mark     the warps deal out the non-zeros of A, and set a bit for each product; rows of B of over 1,000
//            columns come last, by the whole block
//   number   how many bits stand before each word; the bits are the columns of C, in order
//   add      each warp takes a slice of the columns, with equally many results, of all rows of B: two searches
//            for each non-zero of A and warp. No two warps add to one column: no atomics, no barriers
//   write    the sums lie in order
//
// Where the row has so few results that each warp can have sums of its own, each takes a part of A's non-zeros
// in place of a slice: nothing is searched, and the parts are added up in their order.
//
// Where it has many non-zeros of A that name short rows of B, searching would be nearly all of the work: in a
// hypergraph one row of 4,000 non-zeros kept a block for half of the whole product's time. There the warps deal
// out the non-zeros, too, and exchange their products through shared memory, 32 of each at a time, sorted by
// slice; then each warp adds the products of its slice. Each row of B is read once, not by all 16 warps. A sum
// runs in the order of the exchange: of 512 non-zeros of A, the first 32 products of each warp, then the next
// 32, and long rows of B at the end. Products of A A^T often meet on the diagonal: of 32 products, those of
// one place are added up by shuffles first (rows.hpp).
//
// A row whose sums do not fit, or whose range is too wide, is cut into spans of columns that do, narrower ones
// where such rows are few, so that each SM has some; how many results lie where, the counting pass has found
// out. A span takes two searches for each non-zero of A and warp, like a whole row; windows of 1,536 columns
// take them for each window. Rows in a narrow range come here, too, if they have so many products, or non-zeros
// of A, that one warp would be the last to be done. Two blocks share an SM's shared memory, but rows that need
// a third of a block's get no more: the rest is L1, where a warp finds the rows of B that another has just
// read.
//
// Input: rows, or spans, whose bits, numbers and sums fit into the block's shared memory. Cost: each product
// is looked at twice; two searches for each non-zero of A, warp and span (with an exchange: of each non-zero
// and span); a step for each 32 columns of the range, three times.

#include <algorithm>

#include "08_spgemm_multigpu/fast/block_walks.hpp"
#include "08_spgemm_multigpu/fast/forms.hpp"
#include "08_spgemm_multigpu/fast/ranks.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages::spgemm {
namespace {

constexpr auto kWarps = static_cast<unsigned>(kRankedWarps);
constexpr unsigned kBlock = kWarps * kWarp;
static_assert(kRankWordBytes == sizeof *Ranks::words + sizeof *Ranks::before);

/// Numbers the words of the set, by the whole block.
__device__ void number_words(const Ranks& ranks) {
  __shared__ Index of_warps[kWarps];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const Ranks::Stretch stretch = ranks.stretch_of(threadIdx.x, kBlock);
  const Index bits = ranks.bits_of(stretch), up_to_here = sum_up_to(bits, lane);
  if (lane == kWarp - 1) of_warps[warp] = up_to_here;
  __syncthreads();
  Index before = up_to_here - bits;
  for (unsigned w = 0; w < warp; ++w) before += of_warps[w];
  ranks.number(stretch, before);
  __syncthreads();
}

/// The first result of a warp's share; of a warp behind the last: how many there are.
__device__ inline Index first_of_warp(Index results, unsigned warp) {
  return static_cast<Index>(Offset{results} * warp / kWarps);
}

/// The warp in whose share a result is.
__device__ inline Index share_of(Index place, Index results) {
  return (place * Index{kWarps} + Index{kWarps} - 1) / results;
}

/// The columns of the warp's share of the results. `end`: the end of the range. By the whole block.
__device__ Slice slice_of_warp(const Ranks& ranks, Index results, Index end) {
  __shared__ Index cuts[kWarps + 1];
  if (threadIdx.x <= kWarps) {
    const Index rank = first_of_warp(results, threadIdx.x);
    cuts[threadIdx.x] = rank < results ? ranks.column_of(rank) : end;
  }
  __syncthreads();
  const unsigned warp = threadIdx.x / kWarp;
  return {cuts[warp], cuts[warp + 1]};
}

/// Adds the row's products to `sums`: each warp to a slice of the columns, with equally many results.
template <class T, class Ptr>
__device__ void add_by_slices(const Factors<T, Ptr>& f, Index row, const Ranks& ranks, Index results,
                              Index end, T* sums) {
  const Slice slice = slice_of_warp(ranks, results, end);
  if (slice.begin == slice.end) return;
  walk_short_products<false>(f, row, slice, threadIdx.x % kWarp,
                             [&](Index column, T product) { sums[ranks.place(column)] += product; });
}

/// The products of a block's threads, one each, in shared memory.
template <class T>
struct Exchange {
  Index from_warps[kWarps][kWarps + 1];  ///< of a share: how many products the warps before have
  Index in_share[kWarps];
  unsigned short places[kBlock];
  T products[kBlock];

  /// Lays down a product of each thread for its place (below 0: none), share after share, and those of a share
  /// in the order of the threads. Returns where the share of this thread's warp lies. By the whole block.
  __device__ Slice deal(Index place, T product, Index results) {
    const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    const bool is_there = place >= 0;
    const Index share = is_there ? share_of(place, results) : 0;
    const unsigned equals = __match_any_sync(kAllLanes, is_there ? share : -1);
    const Index turn = __popc(equals & lanes_below(lane));
    if (lane < kWarps) from_warps[lane][warp] = 0;
    __syncwarp();
    if (is_there && equals >> lane == 1) from_warps[share][warp] = turn + 1;  // the last of them
    __syncthreads();
    const Index count = lane < kWarps ? from_warps[warp][lane] : 0, up_to_here = sum_up_to(count, lane);
    if (lane < kWarps) from_warps[warp][lane] = up_to_here - count;
    if (lane == kWarp - 1) in_share[warp] = up_to_here;
    __syncthreads();
    const Index size = lane < kWarps ? in_share[lane] : 0, begin = sum_up_to(size, lane) - size;
    const Index at = __shfl_sync(kAllLanes, begin, share) + from_warps[share][warp] + turn;
    if (is_there) {
      places[at] = static_cast<unsigned short>(place);
      products[at] = product;
    }
    __syncthreads();
    const Index mine = __shfl_sync(kAllLanes, begin, static_cast<int>(warp));
    return {mine, mine + __shfl_sync(kAllLanes, size, static_cast<int>(warp))};
  }
};

/// The same sums for rows of B that are mostly short. The warps deal out the non-zeros of A, 512 at a time, and
/// exchange their products, a step of each at a time, so that each warp has those of its share. Long rows of B
/// come after these, slice by slice.
template <bool kWhole, class T, class Ptr>
__device__ void add_by_exchange(const Factors<T, Ptr>& f, Index row, Slice columns, const Ranks& ranks,
                                Index results, T* sums) {
  __shared__ Exchange<T> exchange;
  __shared__ bool has_long[kWarps];
  constexpr auto kSliced = Ptr{8 * kWarp};
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const Slice slice = slice_of_warp(ranks, results, columns.end);
  const auto is_long = [](const Piece<Ptr>& piece) { return piece.to - piece.from > kSliced; };
  const Ptr row_end = f.a.row_ptr[row + 1];
  for (Ptr first = f.a.row_ptr[row]; first < row_end; first += Ptr{kBlock}) {
    const Ptr last = min(row_end, first + Ptr{kBlock});
    auto factor = factor_of<kWhole>(f, first + static_cast<Ptr>(warp * kWarp), last, columns, lane);
    const bool waits = is_long(factor.piece);
    if (waits) factor.piece = {};
    if (const bool any = __any_sync(kAllLanes, waits); lane == 0) has_long[warp] = any;
    const auto all = together(factor.piece, lane);
    Index column = 0;
    T product = 0;
    all.fetch(f.b, factor, static_cast<Ptr>(lane), lane, column, product);
    for (Ptr q = 0; __syncthreads_or(q < all.total) != 0; q += Ptr{kWarp}) {
      const Slice share = exchange.deal(column < 0 ? -1 : ranks.place(column), product, results);
      all.fetch(f.b, factor, q + static_cast<Ptr>(kWarp + lane), lane, column, product);
      for (Index k = share.begin; k < share.end; k += Index{kWarp}) {
        const Index mine = k + static_cast<Index>(lane);
        const Index place = mine < share.end ? Index{exchange.places[mine]} : -1 - static_cast<Index>(lane);
        sum_equals(place, place < 0 ? T{0} : exchange.products[mine], lane,
                   [&](T sum) { sums[place] += sum; });
      }
    }
    if (__syncthreads_or(waits) == 0) continue;
    for (unsigned w = 0; w < kWarps; ++w) {
      if (!has_long[w]) continue;
      auto longs = factor_of<kWhole>(f, first + static_cast<Ptr>(w * kWarp), last, columns, lane);
      longs.piece = is_long(longs.piece) ? cut_to(f.structures().b, longs.piece, slice) : Piece<Ptr>{};
      visit_by_rows(f.b, longs, lane, [&](Index at, T long_ones) { sums[ranks.place(at)] += long_ones; });
    }
    __syncthreads();
  }
}

/// Adds the row's products in `columns` to each warp's own sums, and then those to the first warp's.
template <bool kWhole, class T, class Ptr>
__device__ void add_by_entries(const Factors<T, Ptr>& f, Index row, Slice columns, const Ranks& ranks,
                               Index results, T* sums) {
  const unsigned warp = threadIdx.x / kWarp;
  const Ptr begin = f.a.row_ptr[row];
  const auto entries = static_cast<Offset>(f.a.row_ptr[row + 1] - begin);
  const auto cut = [&](unsigned part) { return begin + static_cast<Ptr>(entries * part / kWarps); };
  T* const mine = sums + std::size_t{warp} * static_cast<std::size_t>(results);
  walk_products_of<kWhole>(f, cut(warp), cut(warp + 1), columns, threadIdx.x % kWarp,
                           [&](Index column, T product) { mine[ranks.place(column)] += product; });
  __syncthreads();
  for (Index s = static_cast<Index>(threadIdx.x); s < results; s += Index{kBlock}) {
    T sum = sums[s];
    for (Index w = 1; w < kRankedWarps; ++w) sum += sums[w * results + s];
    sums[s] = sum;
  }
}

/// The results of a row in `columns` (kWhole: all of the row's), `results` of them, which go to C from
/// position `out` on; by the block. `exchanged`: add_by_exchange(). `bytes`: of dynamic shared memory.
template <bool kWhole, class T, class Ptr>
__device__ void multiply_columns(const Factors<T, Ptr>& f, Index row, Slice columns, bool exchanged,
                                 Index results, Offset out, unsigned bytes, const Output<T>& c) {
  const Index width = columns.end - columns.begin;
  Ranks ranks;
  ranks.begin = columns.begin;
  ranks.used_words = (width + 31) / 32;
  const bool apart = ranked_bytes(width, Offset{kRankedWarps} * results, Index{sizeof(T)}) <= Offset{bytes};
  const Index all_sums = apart ? kRankedWarps * results : results;
  T* const sums = dynamic_shared<T>();
  ranks.words = reinterpret_cast<unsigned*>(sums + all_sums);
  ranks.before = reinterpret_cast<unsigned short*>(ranks.words + ranks.used_words);
  ranks.clear(threadIdx.x, kBlock);
  for (Index s = static_cast<Index>(threadIdx.x); s < all_sums; s += Index{kBlock}) sums[s] = T{0};
  __syncthreads();
  walk_columns_by_block<kWhole>(f.structures(), row, columns, [&](Index column) { ranks.mark(column); });
  __syncthreads();
  number_words(ranks);
  ranks.write_columns(c.col_idx + out, threadIdx.x, kBlock);
  if (apart) {
    add_by_entries<kWhole>(f, row, columns, ranks, results, sums);
  } else if (exchanged) {
    add_by_exchange<kWhole>(f, row, columns, ranks, results, sums);
  } else {
    add_by_slices(f, row, ranks, results, columns.end, sums);
  }
  __syncthreads();
  for (Index s = static_cast<Index>(threadIdx.x); s < results; s += Index{kBlock})
    c.values[out + s] = sums[s];
}

template <class Ptr>
__device__ bool exchanges(const Structure<Ptr>& a, const Rules& rules, Index row, const Offset* products) {
  return are_exchanged(rules, a.row_ptr[row + 1] - a.row_ptr[row], products[row]);
}

/// A block a row.
template <class T, class Ptr>
__global__ void __launch_bounds__(kBlock, 2)
    multiply_rows(Factors<T, Ptr> f, RowList list, const Index* first, const Index* width,
                  const Offset* products, Rules rules, unsigned bytes, Output<T> c) {
  take_rows(list, 1, [&](Index row, unsigned, Index) {
    const auto results = static_cast<Index>(c.row_ptr[row + 1] - c.row_ptr[row]);
    const bool exchanged = exchanges(f.structures().a, rules, row, products);
    multiply_columns<true>(f, row, {first[row], first[row] + width[row]}, exchanged, results,
                           c.row_ptr[row] - c.base, bytes, c);
  });
}

/// The parts of a row with which spans begin, as bits.
__device__ inline unsigned long long span_starts(const Index* before, Index parts) {
  static_assert(kMostParts <= 64);
  const auto lane = static_cast<Index>(threadIdx.x % kWarp);
  const auto begins = [&](Index part) {
    return __ballot_sync(kAllLanes, part < parts && before[min(part, parts - 1)] < 0);
  };
  const unsigned long long low = begins(lane), high = begins(lane + Index{kWarp});
  return high << kWarp | low;
}

/// `blocks_a_row` blocks a row, which deal out its spans.
template <class T, class Ptr>
__global__ void __launch_bounds__(kBlock, 2)
    multiply_spans(Factors<T, Ptr> f, RowList list, const Index* first, const Index* width,
                   const Offset* products, Rules rules, Parts parts, unsigned blocks_a_row, Output<T> c) {
  take_rows(list, blocks_a_row, [&](Index row, unsigned mine, Index) {
    const Index end = first[row] + width[row];
    const Index* const before = parts.before_of(row);
    const auto all_results = static_cast<Index>(c.row_ptr[row + 1] - c.row_ptr[row]);
    const bool exchanged = exchanges(f.structures().a, rules, row, products);
    const auto column_of = [&](int part) { return first[row] + part * parts.columns; };
    unsigned long long starts = span_starts(before, parts.most);
    for (unsigned k = 0; starts != 0; ++k) {
      const int part = __ffsll(static_cast<long long>(starts)) - 1;
      starts &= starts - 1;
      const int next = __ffsll(static_cast<long long>(starts)) - 1;  // -1: none
      if (k % blocks_a_row != mine) continue;
      const Index results_before = Parts::results(before[part]);
      const Index results = (next < 0 ? all_results : Parts::results(before[next])) - results_before;
      if (results == 0) continue;
      multiply_columns<false>(f, row, {column_of(part), next < 0 ? end : column_of(next)}, exchanged, results,
                              c.row_ptr[row] - c.base + results_before,
                              static_cast<unsigned>(parts.span_bytes), c);
      __syncthreads();
    }
  });
}

}  // namespace

template <class T, class Ptr>
void multiply_ranked(const Factors<T, Ptr>& f, RowList list, const Index* first, const Index* width,
                     const Offset* products, const Rules& rules, Index block_bytes, const Output<T>& c,
                     cudaStream_t stream) {
  const auto bytes = static_cast<unsigned>(block_bytes);
  launch_with_memory(
      multiply_rows<T, Ptr>,
      {.grid = blocks_for_rows(list), .block = kBlock, .shared_bytes = bytes, .stream = stream}, f, list,
      first, width, products, rules, bytes, c);
}

template <class T, class Ptr>
void multiply_in_spans(const Factors<T, Ptr>& f, RowList list, const Index* first, const Index* width,
                       const Offset* products, const Rules& rules, const Parts& parts, const Output<T>& c,
                       cudaStream_t stream) {
  // Where the host does not know how few the rows are, a block for each part that a row can have.
  const Index wanted = std::max(rules.span_blocks_a_row, rules.span_blocks / list.count);
  const Index blocks_a_row = list.size_on_device == nullptr ? std::min(parts.most, wanted) : parts.most;
  launch_with_memory(multiply_spans<T, Ptr>,
                     {.grid = blocks_for_rows(list, blocks_a_row),
                      .block = kBlock,
                      .shared_bytes = static_cast<std::size_t>(parts.span_bytes),
                      .stream = stream},
                     f, list, first, width, products, rules, parts, static_cast<unsigned>(blocks_a_row), c);
}

STAGES_FOR_VALUES_AND_POINTERS(multiply_in_spans)
STAGES_FOR_VALUES_AND_POINTERS(multiply_ranked)

}  // namespace stages::spgemm
