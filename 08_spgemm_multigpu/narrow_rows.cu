// Rows of C whose columns lie in a narrow range: a bitmap instead of a hash table.
//
// The idea: in bands, stencils and matrices in a good order the columns of a row of C lie close together,
// however many products there are. A bit for each column of that range says which of them belong to C (49,152
// columns are 6 KB); with the number of bits before each word it also says where in the row a column stands:
//
//   mark     set a bit for each product
//   number   how many bits stand before each word: a scan over the words, 32 at a time
//   add      the place of a column is the number of its word + the bits below its own: one look-up, no
//            probing, and the sums lie in order, without gaps
//   write    the columns are the bits in order: there is nothing to sort
//
// A warp does a row. It adds one row of B at a time, so its lanes hold different columns and no atomics touch
// the sums; marking uses atomicOr, whose order does not matter. Where the whole range fits the place for the
// sums (a band), a column's distance from the first one is its place, and marking and adding are one pass.
//
// Input: rows whose range and results fit the bitmap and the sums. Cost: B's rows once when counting, twice
// when multiplying (once where the range is short); a step for each 32 columns of the range.
//
// Sources: a bitmap with counts as a set that knows ranks is G. Jacobson's ("Space-efficient static trees and
// graphs", FOCS 1989); 01_cpu_serial uses bitmaps for the same reason.

#include "08_spgemm_multigpu/forms.hpp"
#include "common/gpu/launch.hpp"

namespace stages::spgemm {
namespace {

constexpr unsigned kCountWarps = 8;
constexpr unsigned kMultiplyWarps = 4;

__device__ inline void mark(unsigned* words, unsigned place) {
  atomicOr(&words[place / 32], 1u << (place % 32));
}

template <class Ptr>
__global__ void __launch_bounds__(kCountWarps* kWarp)
    count_rows(Structures<Ptr> f, RowList list, const Index* first, Index words_of_warp, Index* counts) {
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const unsigned number = blockIdx.x * kCountWarps + warp;
  if (number >= static_cast<unsigned>(list.count)) return;  // the whole warp leaves
  const Index row = list.rows[number], begin = first[row];
  unsigned* const words = dynamic_shared<unsigned>() + warp * static_cast<unsigned>(words_of_warp);
  for (Index w = static_cast<Index>(lane); w < words_of_warp; w += Index{kWarp}) words[w] = 0;
  __syncwarp();
  walk_columns<true>(f, row, {}, 0, 1, lane,
                     [=](Index column) { mark(words, static_cast<unsigned>(column - begin)); });
  __syncwarp();
  Index bits = 0;
  for (Index w = static_cast<Index>(lane); w < words_of_warp; w += Index{kWarp}) bits += __popc(words[w]);
  bits = sum_over_warp(bits);
  if (lane == 0) counts[row] = bits;
}

/// A warp's share of the block's shared memory: sums, then bits, then the numbers of the words.
template <class T>
struct Shares {
  Index results = 0;
  Index words = 0;

  STAGES_HD std::size_t bytes() const {
    return (static_cast<std::size_t>(results) * sizeof(T) +
            static_cast<std::size_t>(words) * (sizeof(unsigned) + sizeof(unsigned short)) + 15) /
           16 * 16;
  }
};

/// Bits of a row's range of columns, and the sums of its results.
template <class T>
struct Row {
  T* sums;
  unsigned* words;
  unsigned short* before;  ///< bits before each word
  Index begin;             ///< the first column
  Index used_words;
  bool direct;  ///< a sum's place is its column's distance from the first one

  __device__ Index place(Index column) const {
    const auto at = static_cast<unsigned>(column - begin);
    if (direct) return static_cast<Index>(at);
    return before[at / 32] + __popc(words[at / 32] & lanes_below(at % 32));
  }
};

template <class T>
__device__ void clear(const Row<T>& r, Index sums, unsigned lane) {
  for (Index w = static_cast<Index>(lane); w < r.used_words; w += Index{kWarp}) r.words[w] = 0;
  for (Index s = static_cast<Index>(lane); s < sums; s += Index{kWarp}) r.sums[s] = T{0};
  __syncwarp();
}

template <class T>
__device__ void number_words(const Row<T>& r, unsigned lane) {
  Index before = 0;
  for (Index w0 = 0; w0 < r.used_words; w0 += Index{kWarp}) {
    const Index w = w0 + static_cast<Index>(lane);
    const Index bits = w < r.used_words ? __popc(r.words[w]) : 0;
    const Index up_to_here = sum_up_to(bits, lane);
    if (w < r.used_words) r.before[w] = static_cast<unsigned short>(before + up_to_here - bits);
    before += __shfl_sync(kAllLanes, up_to_here, kWarp - 1);
  }
  __syncwarp();
}

template <class T>
__device__ void write_row(const Row<T>& r, Offset out, unsigned lane, const Output<T>& c) {
  for (Index w = static_cast<Index>(lane); w < r.used_words; w += Index{kWarp}) {
    Offset to = out + r.before[w];
    for (unsigned bits = r.words[w]; bits != 0; bits &= bits - 1, ++to) {
      const Index at = w * 32 + __ffs(static_cast<int>(bits)) - 1;
      c.col_idx[to] = r.begin + at;
      if (r.direct) c.values[to] = r.sums[at];
    }
  }
}

template <class T, class Ptr>
__global__ void __launch_bounds__(kMultiplyWarps* kWarp)
    multiply_rows(Factors<T, Ptr> f, RowList list, const Index* first, const Index* width, Shares<T> share,
                  Output<T> c) {
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const unsigned number = blockIdx.x * kMultiplyWarps + warp;
  if (number >= static_cast<unsigned>(list.count)) return;  // the whole warp leaves
  const Index row = list.rows[number];
  unsigned char* const mine = dynamic_shared<unsigned char>() + warp * share.bytes();
  Row<T> r;
  r.sums = reinterpret_cast<T*>(mine);
  r.words = reinterpret_cast<unsigned*>(r.sums + share.results);
  r.before = reinterpret_cast<unsigned short*>(r.words + share.words);
  r.begin = first[row];
  r.used_words = (width[row] + 31) / 32;
  r.direct = width[row] <= share.results;
  const Offset out = c.row_ptr[row] - c.base;
  const Index results = static_cast<Index>(c.row_ptr[row + 1] - c.row_ptr[row]);
  clear(r, r.direct ? width[row] : results, lane);
  if (!r.direct) {
    walk_columns<true>(f.structures(), row, {}, 0, 1, lane, [&](Index column) {
      mark(r.words, static_cast<unsigned>(column - r.begin));
    });
    __syncwarp();
    number_words(r, lane);
  }
  walk_products<true>(f, row, {}, lane, [&](Index column, T product) {
    if (r.direct) mark(r.words, static_cast<unsigned>(column - r.begin));
    r.sums[r.place(column)] += product;
  });
  if (r.direct) number_words(r, lane);
  write_row(r, out, lane, c);
  if (r.direct) return;
  for (Index s = static_cast<Index>(lane); s < results; s += Index{kWarp}) c.values[out + s] = r.sums[s];
}

}  // namespace

template <class Ptr>
void count_narrow(const Structures<Ptr>& f, RowList list, const Index* first, Index columns, Index* counts,
                  cudaStream_t stream) {
  const Index words = columns / 32;
  const std::size_t bytes = kCountWarps * static_cast<std::size_t>(words) * sizeof(unsigned);
  allow_shared_bytes(count_rows<Ptr>, bytes);
  launch(count_rows<Ptr>,
         {.grid = blocks_for(list.count, kCountWarps),
          .block = kCountWarps * kWarp,
          .shared_bytes = bytes,
          .stream = stream},
         f, list, first, words, counts);
}

template <class T, class Ptr>
void multiply_narrow(const Factors<T, Ptr>& f, RowList list, const Index* first, const Index* width,
                     Index columns, Index most_results, const Output<T>& c, cudaStream_t stream) {
  const Shares<T> share{most_results, columns / 32};
  const std::size_t bytes = kMultiplyWarps * share.bytes();
  allow_shared_bytes(multiply_rows<T, Ptr>, bytes);
  launch(multiply_rows<T, Ptr>,
         {.grid = blocks_for(list.count, kMultiplyWarps),
          .block = kMultiplyWarps * kWarp,
          .shared_bytes = bytes,
          .stream = stream},
         f, list, first, width, share, c);
}

#define STAGES_INSTANTIATE(T, Ptr)                                                                    \
  template void multiply_narrow(const Factors<T, Ptr>&, RowList, const Index*, const Index*, Index, \
                                Index, const Output<T>&, cudaStream_t);
STAGES_INSTANTIATE(float, std::int32_t)
STAGES_INSTANTIATE(float, Offset)
STAGES_INSTANTIATE(double, std::int32_t)
STAGES_INSTANTIATE(double, Offset)
#undef STAGES_INSTANTIATE
template void count_narrow(const Structures<std::int32_t>&, RowList, const Index*, Index, Index*,
                           cudaStream_t);
template void count_narrow(const Structures<Offset>&, RowList, const Index*, Index, Index*, cudaStream_t);

}  // namespace stages::spgemm
