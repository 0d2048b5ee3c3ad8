// Rows of C whose columns lie in a narrow range: a bitmap instead of a hash table.
//
// The idea: in bands, stencils and matrices in a good order the columns of a row of C lie close together. A
// bit for each column of that range says which of them belong to C (49,152 columns are 6 KB); with the number
// of bits before each word it also says where in the row a column stands (ranks.hpp):
//
//   mark     set a bit for each product
//   number   how many bits stand before each word: a scan over the words, 32 at a time
//   add      the place of a column is the number of its word + the bits below its own: one look-up, no
//            probing, and the sums lie in order, without gaps
//   write    the columns are the bits in order: there is nothing to sort
//
// A warp does a row. It adds one row of B at a time, so its lanes hold different columns and no atomics touch
// the sums; marking uses atomicOr, whose order does not matter.
//
// To count, B's words are marked where it has any (words.hpp). Where it has none, and to multiply, 32 lanes
// mark bits of one or two words in a band, and atomics on one word wait for each other. So where there is room
// for it a column has a byte, stored without atomics; and where the sums of the whole range fit, a column's
// distance from the first one is its place, and marking and adding are one pass.
//
// Input: rows whose range and results fit the bitmap and the sums. Cost: B's rows once when counting, twice
// when multiplying (once where the range is short); a step for each 32 columns of the range.

#include "08_spgemm_multigpu/fast/forms.hpp"
#include "08_spgemm_multigpu/fast/ranks.hpp"
#include "08_spgemm_multigpu/fast/walks_at_once.hpp"
#include "common/gpu/launch.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages::spgemm {
namespace {

constexpr unsigned kCountWarps = 8;
constexpr unsigned kMultiplyWarps = 4;

/// A bit for each column, by the words of B where there are any; if not, a byte for each, where there is room
/// for that; `words_of_warp`, a multiple of 4, is that room.
template <class Ptr>
__global__ void __launch_bounds__(kCountWarps* kWarp)
    count_rows(Structures<Ptr> f, Words<Ptr> words_of_b, RowList list, const Index* first, const Index* width,
               Index words_of_warp, Index* counts) {
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const unsigned number = blockIdx.x * kCountWarps + warp;
  if (number >= list.size()) return;  // the whole warp leaves
  const Index row = list.rows[number], begin = first[row], columns = width[row];
  uint4* const all = dynamic_shared<uint4>() + warp * static_cast<unsigned>(words_of_warp / 4);
  unsigned* const words = reinterpret_cast<unsigned*>(all);
  const bool by_words = words_of_b.items != nullptr;
  const bool in_bytes = !by_words && (columns + 3) / 4 <= words_of_warp;
  const Index skipped = by_words ? begin % 32 : 0;  // bits before the first column
  const Index used = in_bytes ? (columns + 15) / 16 : (skipped + columns + 127) / 128;  // of four words each
  for (Index w = static_cast<Index>(lane); w < used; w += Index{kWarp}) all[w] = uint4{};
  __syncwarp();
  if (by_words) {
    walk_words(f, words_of_b, row, lane,
               [=](uint2 word) { atomicOr(&words[static_cast<Index>(word.x) - begin / 32], word.y); });
  } else if (in_bytes) {
    auto* const bytes = reinterpret_cast<unsigned char*>(words);
    walk_columns_at_once(f, row, lane, [=](Index column) { bytes[column - begin] = 1; });
  } else {
    const Ranks ranks{.words = words, .begin = begin};
    walk_columns_at_once(f, row, lane, [=](Index column) { ranks.mark(column); });
  }
  __syncwarp();
  Index found = 0;
  for (Index w = static_cast<Index>(lane); w < used; w += Index{kWarp}) {
    const uint4 four = all[w];
    found += __popc(four.x) + __popc(four.y) + __popc(four.z) + __popc(four.w);
  }
  found = sum_over_warp(found);
  if (lane == 0) counts[row] = found;
}

/// A warp's share of the block's shared memory: sums, then bits, then the numbers of the words; or sums, then
/// a byte for each of them.
template <class T>
struct Shares {
  Index results = 0;
  Index words = 0;

  STAGES_HD std::size_t bytes() const {
    return (static_cast<std::size_t>(results) * sizeof(T) + static_cast<std::size_t>(words) * kRankWordBytes +
            15) /
           16 * 16;
  }
  /// The widest range in which each column has a sum and a byte.
  STAGES_HD Index direct_columns() const {
    const Index bytes = words * kRankWordBytes;
    return results < bytes ? results : bytes;
  }
};

/// A row with fewer results than columns in its range, in memory of that share.
template <class T, class Ptr>
__device__ void multiply_by_rank(const Factors<T, Ptr>& f, Index row, const Ranks& ranks, T* sums,
                                 Index results, unsigned lane, Offset out, const Output<T>& c) {
  ranks.clear(lane, kWarp);
  for (Index s = static_cast<Index>(lane); s < results; s += Index{kWarp}) sums[s] = T{0};
  __syncwarp();
  walk_columns_at_once(f.structures(), row, lane, [&](Index column) { ranks.mark(column); });
  __syncwarp();
  const Ranks::Stretch stretch = ranks.stretch_of(lane, kWarp);
  const Index bits = ranks.bits_of(stretch);
  ranks.number(stretch, sum_up_to(bits, lane) - bits);
  __syncwarp();
  walk_products<true>(f, row, {}, lane,
                      [&](Index column, T product) { sums[ranks.place(column)] += product; });
  ranks.write_columns(c.col_idx + out, lane, kWarp);
  for (Index s = static_cast<Index>(lane); s < results; s += Index{kWarp}) c.values[out + s] = sums[s];
}

/// A row whose whole range has sums: a byte says which of them a product came to.
template <class T, class Ptr>
__device__ void multiply_by_distance(const Factors<T, Ptr>& f, Index row, Index begin, Index columns, T* sums,
                                     unsigned char* came, unsigned lane, Offset out, const Output<T>& c) {
  for (Index k = static_cast<Index>(lane); k < columns; k += Index{kWarp}) {
    sums[k] = T{0};
    came[k] = 0;
  }
  __syncwarp();
  walk_products<true>(f, row, {}, lane, [&](Index column, T product) {
    came[column - begin] = 1;
    sums[column - begin] += product;
  });
  for (Index first = 0; first < columns; first += Index{kWarp}) {
    const Index k = first + static_cast<Index>(lane);
    const bool mine = k < columns && came[k] != 0;
    const unsigned lanes = __ballot_sync(kAllLanes, mine);
    if (mine) {
      const Offset to = out + __popc(lanes & lanes_below(lane));
      c.col_idx[to] = begin + k;
      c.values[to] = sums[k];
    }
    out += __popc(lanes);
  }
}

template <class T, class Ptr>
__global__ void __launch_bounds__(kMultiplyWarps* kWarp)
    multiply_rows(Factors<T, Ptr> f, RowList list, const Index* first, const Index* width, Shares<T> share,
                  Output<T> c) {
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const unsigned number = blockIdx.x * kMultiplyWarps + warp;
  if (number >= list.size()) return;  // the whole warp leaves
  const Index row = list.rows[number], columns = width[row];
  T* const sums = reinterpret_cast<T*>(dynamic_shared<unsigned char>() + warp * share.bytes());
  const Offset out = c.row_ptr[row] - c.base;
  if (columns <= share.direct_columns()) {
    auto* const came = reinterpret_cast<unsigned char*>(sums + share.results);
    multiply_by_distance(f, row, first[row], columns, sums, came, lane, out, c);
    return;
  }
  Ranks ranks;
  ranks.words = reinterpret_cast<unsigned*>(sums + share.results);
  ranks.before = reinterpret_cast<unsigned short*>(ranks.words + share.words);
  ranks.begin = first[row];
  ranks.used_words = (columns + 31) / 32;
  multiply_by_rank(f, row, ranks, sums, static_cast<Index>(c.row_ptr[row + 1] - c.row_ptr[row]), lane, out,
                   c);
}

/// Words of a warp's bitmap: whole uint4.
Index words_of_warp(Index columns) { return (columns / 32 + 3) / 4 * 4; }

template <class T>
Shares<T> share_of_warp(Index columns, Index most_results) {
  return {most_results, columns / 32};
}

}  // namespace

std::size_t count_narrow_bytes(Index columns) {
  return kCountWarps * static_cast<std::size_t>(words_of_warp(columns)) * sizeof(unsigned);
}

template <class T>
std::size_t multiply_narrow_bytes(Index columns, Index most_results) {
  return kMultiplyWarps * share_of_warp<T>(columns, most_results).bytes();
}

template <class Ptr>
void count_narrow(const Structures<Ptr>& f, const Words<Ptr>& words, RowList list, const Index* first,
                  const Index* width, Index columns, Index* counts, cudaStream_t stream) {
  const Index with_skipped = columns + kSkippedBits;
  launch_with_memory(count_rows<Ptr>,
                     {.grid = blocks_for(list.count, kCountWarps),
                      .block = kCountWarps * kWarp,
                      .shared_bytes = count_narrow_bytes(with_skipped),
                      .stream = stream},
                     f, words, list, first, width, words_of_warp(with_skipped), counts);
}

template <class T, class Ptr>
void multiply_narrow(const Factors<T, Ptr>& f, RowList list, const Index* first, const Index* width,
                     Index columns, Index most_results, const Output<T>& c, cudaStream_t stream) {
  launch_with_memory(multiply_rows<T, Ptr>,
                     {.grid = blocks_for(list.count, kMultiplyWarps),
                      .block = kMultiplyWarps * kWarp,
                      .shared_bytes = multiply_narrow_bytes<T>(columns, most_results),
                      .stream = stream},
                     f, list, first, width, share_of_warp<T>(columns, most_results), c);
}

STAGES_FOR_VALUES(multiply_narrow_bytes)
STAGES_FOR_POINTERS(count_narrow)
STAGES_FOR_VALUES_AND_POINTERS(multiply_narrow)

}  // namespace stages::spgemm
