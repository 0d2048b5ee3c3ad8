// SpGEMM with rows in bins, and bitmaps in place of tables for long rows.
//
// The idea: a table in global memory is slow, and so is the sort after it. A row of thousands of results fills
// a good part of its columns anyway. So the bin of the longest rows has one bit for each column: 32,768
// columns are 4 KB of shared memory, where a table takes 64 KB for 8,192 results. With the number of bits
// before each word the bitmap also says where in the row a column stands, its rank (ranks.hpp):
//
//   mark     a bit for each product, by atomicOr
//   number   how many bits stand before each word: the rank of its first column
//   write    the columns are the bits, in order: there is nothing to sort
//   add      the sum of a column stands in C, at its rank: a look-up, and never a probe
//
// A block of 8 warps does a row. Where its columns span more than 32,768, it takes one span after the other,
// and of each row of B the part in the span: two binary searches. To add, each warp has an eighth of the span,
// and takes one row of B after the other, as in rung 3: no atomics, in the order of A's non-zeros. The walks
// are those of rows.hpp, which have the next row of B on its way, and when they mark, several at once. All
// other rows are as in rung 5.
//
// What remains: the hashed rows are still sorted in global memory, on R-MAT the longest phase. And in a skewed
// graph the first eighth of the columns has most products; fast/ranked_rows.cu gives each warp as many results.
//
// Input: any CSR matrices. Cost: B's rows once when counting, twice when multiplying, and the searches. No
// table lies in global memory: the workspace is 40 bytes a row. C's sums are read and written in L1 and L2.
//
// Source of the ranks: G. Jacobson ("Space-efficient static trees and graphs", FOCS 1989).

#include "08_spgemm_multigpu/ranks.hpp"
#include "08_spgemm_multigpu/row_bins.hpp"
#include "08_spgemm_multigpu/row_tables.hpp"

namespace stages {
namespace {

using namespace spgemm;

constexpr unsigned kWarps = 8, kBlock = kWarps * kWarp;
constexpr Index kWords = BinSizes{}.span / 32;

/// What a block has in shared memory.
struct Block {
  unsigned words[kWords];
  unsigned short before[kWords];
  Index first, last;  ///< of all columns that any product of the row has
  Index in_warp[kWarps];
};

/// The range of the row's columns: those of a row of B ascend.
template <class Ptr>
__device__ void find_range(const Structures<Ptr>& f, Index row, Block& block) {
  if (threadIdx.x == 0) {
    block.first = f.b.cols;
    block.last = -1;
  }
  __syncthreads();
  for (Ptr e = f.a.row_ptr[row] + static_cast<Ptr>(threadIdx.x); e < f.a.row_ptr[row + 1]; e += Ptr{kBlock}) {
    const Ptr from = f.b.row_ptr[f.a.col_idx[e]], to = f.b.row_ptr[f.a.col_idx[e] + 1];
    if (from == to) continue;
    atomicMin(&block.first, f.b.col_idx[from]);
    atomicMax(&block.last, f.b.col_idx[to - 1]);
  }
  __syncthreads();
}

/// Marks the columns of the row's products in a span, and numbers the words; returns how many columns. All
/// threads of the block come.
template <class Ptr>
__device__ Index mark(const Structures<Ptr>& f, Index row, Slice span, const Ranks& ranks, Block& block) {
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  ranks.clear(threadIdx.x, kBlock);
  __syncthreads();
  walk_columns(f, row, span, warp, kWarps, lane, [&](Index column) { ranks.mark(column); });
  __syncthreads();
  const Ranks::Stretch stretch = ranks.stretch_of(threadIdx.x, kBlock);
  const Index bits = ranks.bits_of(stretch), up_to_here = sum_up_to(bits, lane);
  if (lane == kWarp - 1) block.in_warp[warp] = up_to_here;
  __syncthreads();
  Index before = up_to_here - bits, all = 0;
  for (unsigned w = 0; w < kWarps; ++w) {
    before += w < warp ? block.in_warp[w] : 0;
    all += block.in_warp[w];
  }
  ranks.number(stretch, before);
  __syncthreads();
  return all;
}

/// Calls visit(span, ranks, columns) for the spans of a row, in order.
template <class Ptr, class Visit>
__device__ void for_spans(const Structures<Ptr>& f, Index row, Index span_columns, Block& block,
                          Visit visit) {
  find_range(f, row, block);
  for (Offset begin = block.first; begin <= block.last; begin += span_columns) {
    const Slice span{static_cast<Index>(begin),
                     static_cast<Index>(min(begin + span_columns, Offset{block.last} + 1))};
    const Ranks ranks{block.words, block.before, span.begin, (span.end - span.begin + 31) / 32};
    const Index columns = mark(f, row, span, ranks, block);
    visit(span, ranks, columns);
    __syncthreads();
  }
}

template <class Ptr>
__global__ void __launch_bounds__(kBlock)
    count_rows(Structures<Ptr> f, RowList list, Index span_columns, Index* counts) {
  __shared__ Block block;
  const Index row = list.rows[blockIdx.x];
  Index found = 0;
  for_spans(f, row, span_columns, block, [&](Slice, const Ranks&, Index columns) { found += columns; });
  if (threadIdx.x == 0) counts[row] = found;
}

template <class T, class Ptr>
__global__ void __launch_bounds__(kBlock)
    multiply_rows(Factors<T, Ptr> f, RowList list, Index span_columns, Output<T> c) {
  __shared__ Block block;
  const Index row = list.rows[blockIdx.x];
  Offset out = c.row_ptr[row];
  for_spans(f.structures(), row, span_columns, block, [&](Slice span, const Ranks& ranks, Index columns) {
    ranks.write_columns(c.col_idx + out, threadIdx.x, kBlock);
    T* const sums = c.values + out;
    for (Index k = static_cast<Index>(threadIdx.x); k < columns; k += Index{kBlock}) sums[k] = T{0};
    __syncthreads();
    const Index part = (span.end - span.begin + Index{kWarps} - 1) / Index{kWarps};
    const Offset begin = Offset{span.begin} + Offset{threadIdx.x / kWarp} * part;
    const Slice mine{static_cast<Index>(min(begin, Offset{span.end})),
                     static_cast<Index>(min(begin + part, Offset{span.end}))};
    walk_products<false>(f, row, mine, threadIdx.x % kWarp,
                         [&](Index column, T product) { sums[ranks.place(column)] += product; });
    out += columns;
  });
}

/// Rung 5's plan, whose last bin has bitmaps.
template <class T>
class Bitmaps final : public BinsPlan<T> {
 public:
  Bitmaps(const SpgemmProblem<T>& problem, Exec& exec, const BinSizes& sizes)
      : BinsPlan<T>(problem, exec, sizes), tables_(this->exec()) {}

  std::vector<Metric> metrics() const override {
    return {{"rows_sorted", static_cast<double>(this->by_products_[0].count), ""},
            {"rows_in_bitmaps", static_cast<double>(this->by_results_[kBins - 1].count), ""}};
  }

 protected:
  void count(const Structures<Offset>& f, Index* counts) override {
    this->bin_by_products(f, {kMostShort, this->slots(1) / 2, this->slots(2) / 2});
    count_short_rows(f, this->by_products_[0], counts, this->stream());
    for (int k = 1; k < kBins - 1; ++k) tables_.count(f, this->by_products_[k], this->slots(k), counts);
    const RowList longest = this->by_products_[kBins - 1];
    launch(count_rows<Offset>, a_block_a_row(longest), f, longest, this->sizes_.span, counts);
  }

  void multiply(const Factors<T, Offset>& f, const Index* counts, const Output<T>& c) override {
    this->bin_by_results(counts, this->half_full(kMostShort));
    multiply_short_rows(f, this->by_products_[0], c, this->stream());
    for (int k = 0; k < kBins - 1; ++k) tables_.multiply(f, this->by_results_[k], this->slots(k), c);
    const RowList longest = this->by_results_[kBins - 1];
    launch(multiply_rows<T, Offset>, a_block_a_row(longest), f, longest, this->sizes_.span, c);
  }

  void sort(const Output<T>& c) override {
    for (int k = 0; k < kBins - 1; ++k) this->sort_list(this->by_results_[k], c);
  }

 private:
  LaunchConfig a_block_a_row(RowList list) const {
    return {.grid = blocks_for(list.count, 1), .block = kBlock, .stream = this->stream()};
  }

  SharedTables<T> tables_;
};

}  // namespace

void add_bitmaps(Registry& registry, const std::string& name, const BinSizes& sizes) {
  registry.add<Bitmaps>({.name = name,
                         .idea = "as sorted_rows, but long rows are bitmaps that know ranks, not tables",
                         .previous = "sorted_rows"},
                        sizes);
}

}  // namespace stages
