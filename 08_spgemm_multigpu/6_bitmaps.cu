// SpGEMM with rows in bins, and bitmaps in place of tables for long rows.
//
// The idea: a table in global memory is slow, one warp fills it, and the sort after it is slow as well. A row of
// thousands of results fills a good part of its columns anyway. So a row that is too long for a table in shared
// memory has one bit for each column: 32,768 columns are 4 KB. With the number of bits before each word the
// bitmap also says where in the row a column stands, its *rank*:
//
//   mark     a bit for each product, by atomicOr
//   number   how many bits stand before each word: the rank of its first column
//   write    the columns are the bits, in order: there is nothing to sort
//   add      the sum of a column stands in C, at its rank: a look-up, and never a probe
//
// A block of 8 warps does a row, each warp one row of B after the other. Two warps may have one column, so sums
// are added by atomicAdd, and their last bits differ from run to run. (fast/ranked_rows.cu gives each warp a part
// of the columns, and needs no atomics.) A matrix with more columns than the bitmap takes several turns over all
// products of the row. All other rows are as in rung 5.
//
// Input: any CSR matrices. Cost: B's rows once when counting, twice when multiplying, in each turn. No table
// lies in global memory. C's sums are read and written in L1 and L2.
//
// Source of the ranks: G. Jacobson ("Space-efficient static trees and graphs", FOCS 1989).

#include "08_spgemm_multigpu/bins.hpp"

namespace stages {
namespace {

using namespace spgemm;

constexpr unsigned kWarps = 8, kBlock = kWarps * kWarp;

/// Calls visit(column, product) for the products of a row whose columns are first .. first + span - 1, a warp a
/// row of B; `column` counts from `first` on.
template <class T, class Visit>
__device__ void for_products(View<T> a, View<T> b, Offset row, Offset first, Offset span, Visit visit) {
  for (Offset e = a.row_ptr[row] + threadIdx.x / kWarp; e < a.row_ptr[row + 1]; e += kWarps) {
    const Index k = a.col_idx[e];
    for (Offset q = b.row_ptr[k] + threadIdx.x % kWarp; q < b.row_ptr[k + 1]; q += kWarp) {
      const Offset column = b.col_idx[q] - first;
      if (0 <= column && column < span) visit(static_cast<unsigned>(column), a.values[e] * b.values[q]);
    }
  }
  __syncthreads();
}

/// A block a row: its number of results to counts, or (null) its results to C.
template <class T>
__global__ void __launch_bounds__(kBlock)
    mark_products(View<T> a, View<T> b, Rows rows, Index words, Index* counts, Output<T> c) {
  const Offset row = blockIdx.x, span = Offset{words} * 32;
  if (!rows.has(row)) return;
  unsigned* const bits = dynamic_shared<unsigned>();
  Index* const before = reinterpret_cast<Index*>(bits + words);  // each word; before[words]: all
  Offset found = 0;
  for (Offset first = 0; first < b.cols; first += span, found += before[words]) {
    for (Index w = Index(threadIdx.x); w < words; w += Index{kBlock}) bits[w] = 0;
    __syncthreads();
    for_products(a, b, row, first, span, [&](unsigned i, T) { atomicOr(&bits[i / 32], 1u << i % 32); });
    Index all = 0;
    for (Index w = Index(threadIdx.x); w - Index(threadIdx.x) < words && threadIdx.x < kWarp; w += kWarp) {
      const Index n = w < words ? __popc(bits[w]) : 0, up_to_here = sum_up_to(n, threadIdx.x);
      if (w < words) before[w] = all + up_to_here - n;
      all += __shfl_sync(kAllLanes, up_to_here, kWarp - 1);
    }
    if (threadIdx.x == 0) before[words] = all;
    __syncthreads();
    if (counts != nullptr) continue;
    const Offset out = c.row_ptr[row] + found;
    for (Index w = Index(threadIdx.x); w < words; w += Index{kBlock}) {
      Offset to = out + before[w];
      for (unsigned left = bits[w]; left != 0; left &= left - 1, ++to) {
        c.col_idx[to] = static_cast<Index>(first + Offset{w} * 32 + __ffs(static_cast<int>(left)) - 1);
        c.values[to] = T{0};
      }
    }
    __syncthreads();
    for_products(a, b, row, first, span, [&](unsigned i, T product) {
      const unsigned below = bits[i / 32] & lanes_below(i % 32);
      atomicAdd(&c.values[out + before[i / 32] + __popc(below)], product);
    });
  }
  if (counts != nullptr && threadIdx.x == 0) counts[row] = static_cast<Index>(found);
}

/// Rung 5's plan, whose last bin has bitmaps.
template <class T>
class Bitmaps final : public SortedRowsPlan<T> {
 public:
  Bitmaps(const SpgemmProblem<T>& problem, Exec& exec, const BinSlots& slots, Index span)
      : SortedRowsPlan<T>(problem, exec, slots, problem.max_row_products),  // no table in global memory
        words_((std::min(span, problem.b->cols) + 31) / 32) {}

  std::vector<Metric> metrics() const override {
    return {{"rows_in_bitmaps", this->rows_of_results(this->slots_.back() / 2), ""}};
  }

 private:
  void count_long(View<T> a, View<T> b, Rows rows, Index* counts) override {
    launch(mark_products<T>, a_block_a_row(a.rows), a, b, rows, words_, counts, Output<T>{});
  }
  void multiply_long(View<T> a, View<T> b, Rows rows, const Output<T>& c) override {
    launch(mark_products<T>, a_block_a_row(a.rows), a, b, rows, words_, nullptr, c);
  }
  Rows unsorted(const Index*) override { return {this->hashed_.data(), 0, this->slots_.back() / 2}; }

  LaunchConfig a_block_a_row(Index rows) const {
    const std::size_t bytes = (2 * static_cast<std::size_t>(words_) + 1) * sizeof(Index);
    allow_shared_bytes(mark_products<T>, bytes);
    return {.grid = blocks_for(rows, 1), .block = kBlock, .shared_bytes = bytes, .stream = this->stream()};
  }

  Index words_;
};

}  // namespace

void add_bitmaps(Registry& registry, const std::string& name, const BinSlots& slots, Index span) {
  registry.add<Bitmaps>({.name = name,
                         .idea = "as sorted_rows, but long rows are bitmaps that know ranks, not tables",
                         .previous = "sorted_rows",
                         .claims = {.bitwise_reproducible = false}},
                        slots, span);
}

}  // namespace stages
