// Huge rows of C, and rows that are nearly dense: windows of columns, with nothing to look up.
//
// The idea: a hash table in shared memory ends at some thousand results, and one in global memory, where
// hash_warp_per_row.cu goes then, is slow and as large as the longest row. A bitmap and a dense window have no
// end: they are moved along the row.
//
//   count      a block a row; a bit for each column of the row's range, 1.5 million of them in 192 KB, so
//              nearly always one window; then the bits are counted
//   multiply   a block a row; each of its 16 warps has a window of 1,024 columns: a sum for each, and a bit
//              that says whether any product came. Neighbouring warps have neighbouring windows, which
//              together move along the range. A warp finds the part of each row of B that lies in its window
//              by two binary searches, a lane for each row of B, and adds one row of B at a time: the sums
//              need no atomics, and run in the order of A's entries. The results are written in order
//
// What the windows cost is searching: for each entry of A and each window. Dense rows pay little for it, as
// much lies in each window; rows with few results in a wide range go into tables (rules.hpp).
//
// Input: any rows. Cost: counting: a step a product, and one for each 32 columns of the range; multiplying: a
// step a product, two searches for each entry of A and window, and one for each column of the range.

#include <algorithm>

#include "08_spgemm_multigpu/forms.hpp"
#include "common/gpu/launch.hpp"

namespace stages::spgemm {
namespace {

constexpr unsigned kCountWarps = 16;
constexpr unsigned kWarps = static_cast<unsigned>(kWindowWarps);

/// `words`: of the bitmap.
template <class Ptr>
__global__ void __launch_bounds__(kCountWarps* kWarp)
    count_rows(Structures<Ptr> f, RowList list, const Index* first, const Index* width, Index words,
               Index* counts) {
  __shared__ Index total;
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const Index row = list.rows[blockIdx.x];
  unsigned* const bits = dynamic_shared<unsigned>();
  if (threadIdx.x == 0) total = 0;
  Index found = 0;
  for (Offset passed = 0; passed < width[row]; passed += Offset{words} * 32) {
    const Index begin = first[row] + static_cast<Index>(passed);
    const Index columns = static_cast<Index>(min(Offset{words} * 32, width[row] - passed));
    const Index used = (columns + 31) / 32;
    for (Index w = static_cast<Index>(threadIdx.x); w < used; w += static_cast<Index>(blockDim.x)) bits[w] = 0;
    __syncthreads();
    const auto mark = [=](Index column) {
      const auto at = static_cast<unsigned>(column - begin);
      atomicOr(&bits[at / 32], 1u << (at % 32));
    };
    if (columns == width[row]) {
      walk_columns<true>(f, row, {}, warp, kCountWarps, lane, mark);
    } else {
      walk_columns<false>(f, row, {begin, begin + columns}, warp, kCountWarps, lane, mark);
    }
    __syncthreads();
    for (Index w = static_cast<Index>(threadIdx.x); w < used; w += static_cast<Index>(blockDim.x)) {
      found += __popc(bits[w]);
    }
    __syncthreads();
  }
  found = sum_over_warp(found);
  if (lane == 0) atomicAdd(&total, found);
  __syncthreads();
  if (threadIdx.x == 0) counts[row] = total;
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
    for (Index w = static_cast<Index>(lane); w < (n + 31) / 32; w += Index{kWarp}) bits[w] = 0;
  }
  __device__ void add(Index column, T product) const {
    const auto at = static_cast<unsigned>(column - columns.begin);
    atomicOr(&bits[at / 32], 1u << (at % 32));
    sums[at] += product;
  }
  __device__ Index results(unsigned lane) const {
    const Index words = (columns.end - columns.begin + 31) / 32;
    Index found = 0;
    for (Index w = static_cast<Index>(lane); w < words; w += Index{kWarp}) found += __popc(bits[w]);
    return sum_over_warp(found);
  }
  /// A lane takes a word; how many bits the lanes before it have says where its own go.
  __device__ void write(Offset out, unsigned lane, const Output<T>& c) const {
    const Index words = (columns.end - columns.begin + 31) / 32;
    for (Index first = 0; first < words; first += Index{kWarp}) {
      const Index w = first + static_cast<Index>(lane);
      unsigned left = w < words ? bits[w] : 0u;
      const Index mine = __popc(left), up_to_here = sum_up_to(mine, lane);
      for (Offset to = out + up_to_here - mine; left != 0; left &= left - 1, ++to) {
        const Index at = w * 32 + __ffs(static_cast<int>(left)) - 1;
        c.col_idx[to] = columns.begin + at;
        c.values[to] = sums[at];
      }
      out += __shfl_sync(kAllLanes, up_to_here, kWarp - 1);
    }
  }
};

template <class T, class Ptr>
__global__ void __launch_bounds__(kWarps* kWarp)
    multiply_rows(Factors<T, Ptr> f, RowList list, const Index* first, const Index* width,
                  Index window_columns, Output<T> c) {
  __shared__ Index counts[kWarps];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const Index row = list.rows[blockIdx.x];
  T* const all_sums = dynamic_shared<T>();
  auto* const all_bits =
      reinterpret_cast<unsigned*>(all_sums + std::size_t{kWarps} * static_cast<std::size_t>(window_columns));
  const Offset end = Offset{first[row]} + width[row];
  Offset out = c.row_ptr[row] - c.base;
  for (Offset pass = first[row]; pass < end; pass += Offset{kWindowWarps} * window_columns) {
    const Offset begin = min(end, pass + Offset{warp} * window_columns);
    const Window<T> window{
        all_sums + std::size_t{warp} * static_cast<std::size_t>(window_columns),
        all_bits + std::size_t{warp} * static_cast<std::size_t>(window_columns / 32),
        {static_cast<Index>(begin), static_cast<Index>(min(end, begin + window_columns))}};
    window.clear(lane);
    __syncwarp();
    if (window.columns.begin < window.columns.end) {
      walk_products<false>(f, row, window.columns, lane,
                           [&](Index column, T product) { window.add(column, product); });
    }
    const Index found = window.results(lane);
    if (lane == 0) counts[warp] = found;
    __syncthreads();
    Index before = 0, all = 0;
    for (unsigned w = 0; w < kWarps; ++w) {
      if (w < warp) before += counts[w];
      all += counts[w];
    }
    window.write(out + before, lane, c);
    out += all;
    __syncthreads();
  }
}

}  // namespace

template <class Ptr>
void count_in_bitmap(const Structures<Ptr>& f, RowList list, const Index* first, const Index* width,
                     Index bitmap_columns, Index* counts, cudaStream_t stream) {
  // No more words than B has columns, so that several blocks of a small problem share an SM.
  const Index words = std::min(bitmap_columns / 32, f.b.cols / 32 + 1);
  const std::size_t bytes = static_cast<std::size_t>(words) * sizeof(unsigned);
  allow_shared_bytes(count_rows<Ptr>, bytes);
  launch(count_rows<Ptr>,
         {.grid = blocks_for(list.count, 1),
          .block = kCountWarps * kWarp,
          .shared_bytes = bytes,
          .stream = stream},
         f, list, first, width, words, counts);
}

template <class T, class Ptr>
void multiply_in_windows(const Factors<T, Ptr>& f, RowList list, const Index* first, const Index* width,
                         Index window_columns, const Output<T>& c, cudaStream_t stream) {
  const auto columns = static_cast<std::size_t>(kWindowWarps) * static_cast<std::size_t>(window_columns);
  const std::size_t bytes = columns * sizeof(T) + columns / 8;
  allow_shared_bytes(multiply_rows<T, Ptr>, bytes);
  launch(multiply_rows<T, Ptr>,
         {.grid = blocks_for(list.count, 1),
          .block = kWarps * kWarp,
          .shared_bytes = bytes,
          .stream = stream},
         f, list, first, width, window_columns, c);
}

#define STAGES_INSTANTIATE(T, Ptr)                                                                        \
  template void multiply_in_windows(const Factors<T, Ptr>&, RowList, const Index*, const Index*, Index, \
                                    const Output<T>&, cudaStream_t);
STAGES_INSTANTIATE(float, std::int32_t)
STAGES_INSTANTIATE(float, Offset)
STAGES_INSTANTIATE(double, std::int32_t)
STAGES_INSTANTIATE(double, Offset)
#undef STAGES_INSTANTIATE
template void count_in_bitmap(const Structures<std::int32_t>&, RowList, const Index*, const Index*, Index,
                              Index*, cudaStream_t);
template void count_in_bitmap(const Structures<Offset>&, RowList, const Index*, const Index*, Index, Index*,
                              cudaStream_t);

}  // namespace stages::spgemm
