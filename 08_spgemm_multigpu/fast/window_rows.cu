// Huge rows of C are counted here, and multiplied where they are nearly dense: windows of columns, with
// nothing to look up. A hash table in shared memory ends at some thousand results; a bitmap and a dense window
// are moved along the row, and have no end.
//
//   count      a block a row (of split rows, several); a bit for each column of the row's range, 1.5 million
//              of them in 192 KB, so nearly always one window, by products or by words of B; rows of B of over
//              a thousand columns come last, by the whole block (block_walks.hpp); then the bits are counted
//   multiply   each warp has a window of up to 1,536 columns (768 in double precision): a sum for each, and a
//              bit that says whether any product came. Neighbouring warps have neighbouring windows, which
//              move along the range together. A warp finds the part of each row of B in its window by two
//              searches, a lane for each row of B, and adds them row by row: no atomics. The results are
//              written in order
//
// What windows cost is searching, for each non-zero of A and each window, so they should be wide. But two
// blocks should share an SM, so that one adds while the other searches: on an H200 an R-MAT matrix takes 18 %
// longer with windows of twice the width, of which one block fills an SM. Where little of a row of B lies in a
// window, products of several rows are added together (rows.hpp). A row of up to 8,192 columns is one pass of
// only four warps.
//
// A row that needs many passes, such as a hub's, is cut into parts of whole passes, a block each, up to 64 of
// them; the counting pass also counts the results before each part, so every block knows where it writes.
// Where parts are sparse, several become a span that ranked_rows.cu can hold, and the row goes there: on an
// R-MAT matrix with a million vertices that halves the time of the whole product.
//
// Input: any rows. Cost: counting: a step a product, and one for each 32 columns of the range; multiplying: a
// step a product, two searches for each non-zero of A and window, and one for each 32 columns of the range.
// Memory: 256 bytes for a row that was counted by a bitmap.

#include <algorithm>
#include <limits>

#include "08_spgemm_multigpu/fast/block_walks.hpp"
#include "08_spgemm_multigpu/fast/forms.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages::spgemm {
namespace {

constexpr unsigned kCountWarps = 16;
constexpr unsigned kMostWarps = static_cast<unsigned>(kWindowWarps);
constexpr Index kLastColumn = std::numeric_limits<Index>::max();

/// Columns of a row, from its first one on.
struct Stretch {
  Index begin = 0;
  Index end = 0;
};

__device__ inline void mark(unsigned* bits, unsigned at) { atomicOr(&bits[at / 32], 1u << (at % 32)); }

/// Adds the bits of a bitmap, which begins at the row's column `passed`, to the parts they lie in. Before the
/// row's first column (passed < 0) there are no bits.
__device__ inline void count_parts(const unsigned* bits, Index words, Offset passed, Index columns,
                                   Index* in_part) {
  Index found = 0;
  Offset part = 0;
  for (Index w = static_cast<Index>(threadIdx.x); w < words; w += static_cast<Index>(blockDim.x)) {
    const Offset from = passed + Offset{w} * 32, here = from / columns;
    if (here != part && found > 0) {
      atomicAdd(&in_part[part], found);
      found = 0;
    }
    part = here;
    unsigned word = bits[w];
    if (passed < 0 && from + 31 >= (here + 1) * columns) {  // the next part begins within the word
      const auto low = static_cast<int>((here + 1) * columns - from);
      const Index beyond = __popc(word >> low);
      if (beyond > 0) atomicAdd(&in_part[here + 1], beyond);
      word &= (1u << low) - 1;
    }
    found += __popc(word);
  }
  if (found > 0) atomicAdd(&in_part[part], found);
}

/// Writes what lies before each part of a row, and where its spans begin, each with as many parts as fit, of
/// `most_of_span`; returns the results of all.
__device__ inline Index write_parts(const Index* in_part, Index width, const Parts& parts, Index slot,
                                    Index most_of_span) {
  Index* const before = parts.before_in(slot);
  const auto fits = [&](Index count, Index results) {
    return count <= most_of_span && Offset{count} * parts.columns <= kLastColumn &&
           ranked_bytes(count * parts.columns, results, parts.value_bytes) <= parts.span_bytes;
  };
  Index total = 0, span = 0, before_span = 0;
  bool all_fit = true;
  for (Index p = 0; p < parts.most; ++p) {
    const bool is_there = Offset{p} * parts.columns < width;
    if (is_there && !fits(p + 1 - span, total + in_part[p] - before_span)) {
      span = p;
      before_span = total;
      all_fit = all_fit && fits(1, in_part[p]);
    }
    before[p] = is_there && span == p ? ~total : total;
    total += in_part[p];
  }
  for (Index p = 0; p < parts.most && !all_fit; ++p) before[p] = Parts::results(before[p]);
  return total;
}

/// A block for a row and each value of blockIdx.y: `parts_a_block` of the row's parts. Where that is not all
/// of them, cut_rows() does the rest. `words`: of the bitmap, which has room for a whole row if B has words.
template <class Ptr>
__global__ void __launch_bounds__(kCountWarps* kWarp)
    count_rows(Structures<Ptr> f, Words<Ptr> words_of_b, RowList list, const Index* first, const Index* width,
               Index words, Index* counts, Parts parts, Index parts_a_block) {
  __shared__ Index in_part[kMostParts];
  unsigned* const bits = dynamic_shared<unsigned>();
  const Index first_part = static_cast<Index>(blockIdx.y) * parts_a_block;
  const bool by_words = words_of_b.items != nullptr;
  take_rows(list, 1, [&](Index row, unsigned, Index slot) {
    if (threadIdx.x < kMostParts) in_part[threadIdx.x] = 0;
    const Offset end = min(Offset{width[row]}, (Offset{first_part} + parts_a_block) * parts.columns);
    const Index skipped = by_words ? first[row] % 32 : 0;  // bits before the first column
    for (Offset passed = Offset{first_part} * parts.columns - skipped; passed < end;
         passed += Offset{words} * 32) {
      const Index begin = first[row] + static_cast<Index>(passed);
      const Index columns = static_cast<Index>(min(Offset{words} * 32, end - passed));
      const Index used = (columns + 31) / 32;
      for (Index w = static_cast<Index>(threadIdx.x); w < used; w += static_cast<Index>(blockDim.x))
        bits[w] = 0;
      __syncthreads();
      const auto visit = [=](Index column) { mark(bits, static_cast<unsigned>(column - begin)); };
      if (by_words) {
        walk_words_by_block(f, words_of_b, row, [=](uint2 word) {
          atomicOr(&bits[static_cast<Index>(word.x) - begin / 32], word.y);
        });
      } else if (columns == width[row]) {
        walk_columns_by_block<true>(f, row, {}, visit);
      } else {
        walk_columns_by_block<false>(f, row, {begin, begin + columns}, visit);
      }
      __syncthreads();
      count_parts(bits, used, passed, parts.columns, in_part);
      __syncthreads();
    }
    if (parts_a_block < parts.most) {
      __syncthreads();  // a block beyond the end of the row comes here at once
      const Index part = first_part + static_cast<Index>(threadIdx.x);
      if (static_cast<Index>(threadIdx.x) < parts_a_block && part < parts.most)
        parts.before_in(slot)[part] = in_part[part];
    } else if (threadIdx.x == 0) {
      parts.slot[row] = slot;
      counts[row] = write_parts(in_part, width[row], parts, slot, parts.most_of_span(list.size()));
    }
  });
}

/// The end of count_rows() where a row has several blocks, which left the results of each part. A thread a row.
__global__ void __launch_bounds__(kWarp)
    cut_rows(RowList list, const Index* width, Index* counts, Parts parts) {
  const unsigned number = blockIdx.x * kWarp + threadIdx.x;
  if (number >= list.size()) return;
  const auto k = static_cast<Index>(number);
  Index in_part[kMostParts];
  for (Index p = 0; p < parts.most; ++p) in_part[p] = parts.before_in(k)[p];
  const Index row = list.rows[k];
  parts.slot[row] = k;
  counts[row] = write_parts(in_part, width[row], parts, k, parts.most_of_span(list.size()));
}

/// A warp's window.
template <class T>
struct Window {
  T* sums;
  unsigned* bits;
  Slice columns;

  __device__ void clear(unsigned lane) const {
    const Index n = columns.end - columns.begin;
    for (Index k = static_cast<Index>(lane); k < n; k += Index{kWarp}) sums[k] = T{0};
    for (Index w = static_cast<Index>(lane); w < words(); w += Index{kWarp}) bits[w] = 0;
  }
  __device__ void add(Index column, T product) const {
    const auto at = static_cast<unsigned>(column - columns.begin);
    mark(bits, at);
    sums[at] += product;
  }
  __device__ Index results(unsigned lane) const {
    Index found = 0;
    for (Index w = static_cast<Index>(lane); w < words(); w += Index{kWarp}) found += __popc(bits[w]);
    return sum_over_warp(found);
  }
  /// A word after the other, a lane a column: the lanes' results lie side by side in C.
  __device__ void write(Offset out, unsigned lane, const Output<T>& c) const {
    for (Index w = 0; w < words(); ++w) {
      const unsigned word = bits[w];
      if ((word >> lane & 1u) != 0) {
        const Offset to = out + __popc(word & lanes_below(lane));
        const Index at = w * 32 + static_cast<Index>(lane);
        c.col_idx[to] = columns.begin + at;
        c.values[to] = sums[at];
      }
      out += __popc(word);
    }
  }

 private:
  __device__ Index words() const { return (columns.end - columns.begin + 31) / 32; }
};

/// The stretch of a row that part number `part` takes (none: begin = end), and the results before it.
__device__ inline Stretch stretch_of(const Parts& parts, Index row, Index width, Index part, Index& before) {
  const Index slot = parts.slot[row];
  before = 0;
  if (slot < 0) return part == 0 ? Stretch{0, width} : Stretch{};
  const Offset begin = Offset{part} * parts.columns;
  if (begin >= width) return {};
  before = Parts::results(parts.before_of(row)[part]);
  return {static_cast<Index>(begin), static_cast<Index>(min(begin + parts.columns, Offset{width}))};
}

/// `parts_a_row` blocks a row. Where one pass is enough, its windows are as narrow as that allows, so that
/// all warps have work.
template <class T, class Ptr>
__global__ void __launch_bounds__(kMostWarps* kWarp, 2)
    multiply_rows(Factors<T, Ptr> f, RowList list, const Index* first, const Index* width, Parts parts,
                  unsigned parts_a_row, Index window_columns, Output<T> c) {
  __shared__ Index counts[kMostWarps];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
  T* const all_sums = dynamic_shared<T>();
  auto* const all_bits =
      reinterpret_cast<unsigned*>(all_sums + std::size_t{warps} * static_cast<std::size_t>(window_columns));
  take_rows(list, parts_a_row, [&](Index row, unsigned part, Index) {
    Index results_before = 0;
    const Stretch stretch = stretch_of(parts, row, width[row], static_cast<Index>(part), results_before);
    if (stretch.begin == stretch.end) return;
    const Index share =
        (stretch.end - stretch.begin + static_cast<Index>(warps) - 1) / static_cast<Index>(warps);
    const Index columns = min(window_columns, (share + 31) / 32 * 32);
    const Offset end = Offset{first[row]} + stretch.end;
    Offset out = c.row_ptr[row] - c.base + results_before;
    for (Offset pass = Offset{first[row]} + stretch.begin; pass < end; pass += Offset{warps} * columns) {
      const Offset begin = min(end, pass + Offset{warp} * columns);
      const Window<T> window{all_sums + std::size_t{warp} * static_cast<std::size_t>(window_columns),
                             all_bits + std::size_t{warp} * static_cast<std::size_t>(window_columns / 32),
                             {static_cast<Index>(begin), static_cast<Index>(min(end, begin + columns))}};
      window.clear(lane);
      __syncwarp();
      if (window.columns.begin < window.columns.end) {
        walk_short_products<false>(f, row, window.columns, lane,
                                   [&](Index column, T product) { window.add(column, product); });
      }
      const Index found = window.results(lane);
      if (lane == 0) counts[warp] = found;
      __syncthreads();
      Index before = 0, all = 0;
      for (unsigned w = 0; w < warps; ++w) {
        if (w < warp) before += counts[w];
        all += counts[w];
      }
      window.write(out + before, lane, c);
      out += all;
      __syncthreads();
    }
  });
}

}  // namespace

template <class Ptr>
void count_in_bitmap(const Structures<Ptr>& f, const Words<Ptr>& words_of_b, RowList list, const Index* first,
                     const Index* width, Index bitmap_columns, Index blocks_a_row, Index* counts,
                     const Parts& parts, cudaStream_t stream) {
  const Index parts_a_block = (parts.most + blocks_a_row - 1) / blocks_a_row;
  const Index blocks = (parts.most + parts_a_block - 1) / parts_a_block;
  // No more words than a block has columns, so that several blocks of a small problem share an SM.
  const Offset columns = std::min(Offset{f.b.cols}, Offset{parts_a_block} * parts.columns);
  const Index words = std::min(bitmap_columns / 32, static_cast<Index>(columns / 32) + 1);
  const bool whole = blocks == 1 && Offset{words} * 32 >= f.b.cols;
  launch_with_memory(count_rows<Ptr>,
                     {.grid = {blocks_for_rows(list), static_cast<unsigned>(blocks)},
                      .block = kCountWarps * kWarp,
                      .shared_bytes = static_cast<std::size_t>(words) * sizeof(unsigned),
                      .stream = stream},
                     f, whole ? words_of_b : Words<Ptr>{}, list, first, width, words, counts, parts,
                     parts_a_block);
  if (blocks > 1) {
    launch(cut_rows, {.grid = blocks_for(list.count, kWarp), .block = kWarp, .stream = stream}, list, width,
           counts, parts);
  }
}

template <class T, class Ptr>
void multiply_in_windows(const Factors<T, Ptr>& f, RowList list, Form form, const Index* first,
                         const Index* width, Index window_columns, const Parts& parts, const Output<T>& c,
                         cudaStream_t stream) {
  const Index warps = form == Form::windows ? kWindowWarps : kSmallWindowWarps;
  const Index parts_a_row = form == Form::windows ? parts.most : 1;
  launch_with_memory(multiply_rows<T, Ptr>,
                     {.grid = blocks_for_rows(list, parts_a_row),
                      .block = static_cast<unsigned>(warps) * kWarp,
                      .shared_bytes = window_bytes<T>(warps, window_columns),
                      .stream = stream},
                     f, list, first, width, parts, static_cast<unsigned>(parts_a_row), window_columns, c);
}

STAGES_FOR_POINTERS(count_in_bitmap)
STAGES_FOR_VALUES_AND_POINTERS(multiply_in_windows)

}  // namespace stages::spgemm
