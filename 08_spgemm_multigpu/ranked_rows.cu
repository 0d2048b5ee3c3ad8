// Long rows of C in a range of columns that a bitmap holds: a block a row, sums without gaps.
//
// The idea: dense windows (window_rows.cu) are cleared, and written, column by column, and each entry of A is
// looked for in each of them. Where a row fills a few percent of its range, as in graphs with some hundred
// thousand vertices, that costs more than the products. A bitmap of the whole range is 16 KB for 131,072
// columns; with the number of bits before each word it says where in the row a column stands, so the sums of
// the row's own results are all that is kept beside it:
//
//   mark     the warps of a block deal out the entries of A, and set a bit for each product
//   number   how many bits stand before each word; the bits are the columns of C, in order
//   add      each warp takes a slice of the columns, with equally many results, of all rows of B: two
//            searches for each entry of A and warp. No two warps add to one column, so there are neither
//            atomics nor barriers, and every sum runs in the order of A's entries
//   write    the sums lie in order
//
// Where the row has so few results that each warp can have sums of its own, each takes a part of A's entries
// in place of a slice of the columns, there is nothing to search, and the parts are added up in their order.
//
// This is narrow_rows.cu for a block. It also serves rows in a narrow range that have so many products, or
// entries of A, that one warp would still be busy with them when all others are done.
//
// Two blocks share an SM's shared memory, but rows that need a third of that get no more: the rest of it is
// L1, and in L1 a warp finds the rows of B that another has just read.
//
// Input: rows whose bits, numbers and sums fit into the block's shared memory. Cost: each product is looked
// at twice; two searches for each entry of A and warp; a step for each 32 columns of the range, three times.

#include "08_spgemm_multigpu/forms.hpp"
#include "08_spgemm_multigpu/ranks.hpp"
#include "common/gpu/launch.hpp"

namespace stages::spgemm {
namespace {

constexpr auto kWarps = static_cast<unsigned>(kRankedWarps);
constexpr unsigned kBlock = kWarps * kWarp;

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

/// Adds the row's products to `sums`: each warp to a slice of the columns, with equally many results.
template <class T, class Ptr>
__device__ void add_by_slices(const Factors<T, Ptr>& f, Index row, const Ranks& ranks, Index results,
                              Index end, T* sums) {
  __shared__ Index cuts[kWarps + 1];
  if (threadIdx.x <= kWarps) {
    const auto rank = static_cast<Index>(Offset{results} * threadIdx.x / kWarps);
    cuts[threadIdx.x] = rank < results ? ranks.column_of(rank) : end;
  }
  __syncthreads();
  const unsigned warp = threadIdx.x / kWarp;
  const Slice slice{cuts[warp], cuts[warp + 1]};
  if (slice.begin == slice.end) return;
  walk_short_products<false>(f, row, slice, threadIdx.x % kWarp,
                             [&](Index column, T product) { sums[ranks.place(column)] += product; });
}

/// Adds a part of the row's products to each warp's own sums, and then those to the first warp's.
template <class T, class Ptr>
__device__ void add_by_entries(const Factors<T, Ptr>& f, Index row, const Ranks& ranks, Index results,
                               T* sums) {
  const unsigned warp = threadIdx.x / kWarp;
  const Ptr begin = f.a.row_ptr[row];
  const auto entries = static_cast<Offset>(f.a.row_ptr[row + 1] - begin);
  const auto cut = [&](unsigned part) { return begin + static_cast<Ptr>(entries * part / kWarps); };
  T* const mine = sums + std::size_t{warp} * static_cast<std::size_t>(results);
  walk_products_of<true>(f, cut(warp), cut(warp + 1), {}, threadIdx.x % kWarp,
                         [&](Index column, T product) { mine[ranks.place(column)] += product; });
  __syncthreads();
  for (Index s = static_cast<Index>(threadIdx.x); s < results; s += Index{kBlock}) {
    T sum = sums[s];
    for (Index w = 1; w < kRankedWarps; ++w) sum += sums[w * results + s];
    sums[s] = sum;
  }
}

/// `bytes`: of dynamic shared memory.
template <class T, class Ptr>
__global__ void __launch_bounds__(kBlock, 2)
    multiply_rows(Factors<T, Ptr> f, RowList list, const Index* first, const Index* width, unsigned bytes,
                  Output<T> c) {
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const Index row = list.rows[blockIdx.x], columns = width[row];
  const Offset out = c.row_ptr[row] - c.base;
  const auto results = static_cast<Index>(c.row_ptr[row + 1] - c.row_ptr[row]);
  Ranks ranks;
  ranks.begin = first[row];
  ranks.used_words = (columns + 31) / 32;
  const bool apart = ranked_bytes(columns, Offset{kRankedWarps} * results, Index{sizeof(T)}) <= Offset{bytes};
  const Index all_sums = apart ? kRankedWarps * results : results;
  T* const sums = dynamic_shared<T>();
  ranks.words = reinterpret_cast<unsigned*>(sums + all_sums);
  ranks.before = reinterpret_cast<unsigned short*>(ranks.words + ranks.used_words);
  ranks.clear(threadIdx.x, kBlock);
  for (Index s = static_cast<Index>(threadIdx.x); s < all_sums; s += Index{kBlock}) sums[s] = T{0};
  __syncthreads();
  walk_columns<true>(f.structures(), row, {}, warp, kWarps, lane, [&](Index column) { ranks.mark(column); });
  __syncthreads();
  number_words(ranks);
  ranks.write_columns(c.col_idx + out, threadIdx.x, kBlock);
  if (apart) {
    add_by_entries(f, row, ranks, results, sums);
  } else {
    add_by_slices(f, row, ranks, results, ranks.begin + columns, sums);
  }
  __syncthreads();
  for (Index s = static_cast<Index>(threadIdx.x); s < results; s += Index{kBlock})
    c.values[out + s] = sums[s];
}

}  // namespace

template <class T, class Ptr>
void multiply_ranked(const Factors<T, Ptr>& f, RowList list, const Index* first, const Index* width,
                     Index block_bytes, const Output<T>& c, cudaStream_t stream) {
  const auto bytes = static_cast<std::size_t>(block_bytes);
  allow_dynamic_bytes(multiply_rows<T, Ptr>, bytes);
  launch(multiply_rows<T, Ptr>,
         {.grid = blocks_for(list.count, 1), .block = kBlock, .shared_bytes = bytes, .stream = stream}, f,
         list, first, width, static_cast<unsigned>(bytes), c);
}

#define STAGES_INSTANTIATE(T, Ptr)                                                                  \
  template void multiply_ranked(const Factors<T, Ptr>&, RowList, const Index*, const Index*, Index, \
                                const Output<T>&, cudaStream_t);
STAGES_INSTANTIATE(float, std::int32_t)
STAGES_INSTANTIATE(float, Offset)
STAGES_INSTANTIATE(double, std::int32_t)
STAGES_INSTANTIATE(double, Offset)
#undef STAGES_INSTANTIATE

}  // namespace stages::spgemm
