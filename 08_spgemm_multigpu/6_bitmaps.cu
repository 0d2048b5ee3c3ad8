// SpGEMM with rows in bins, and bitmaps in place of tables for long rows.
//
// The idea: a table in global memory is slow, and so is the sort after it. So a row that is too long for a
// table in shared memory has one bit for each column of B: 32,768 columns are 4 KB. With the number of bits
// before each word, as many bytes again, the bitmap also says where in the row a column stands, its *rank*:
//
//   mark     a bit for each product, by atomicOr
//   number   how many bits stand before each word: the rank of its first column
//   write    the columns are the bits, in order: there is nothing to sort
//   add      the sum of a column stands in C, at its rank: a look-up, and never a probe
//
// Also new: a long row has 8 warps, not one. Each takes one row of B after the other. Two warps may have one
// column, so sums are added by atomicAdd, and their last bits differ from run to run. (fast/ranked_rows.cu
// gives each warp a part of the columns, and needs no atomics.) All other rows are as in rung 5. With so many
// columns that bits and numbers do not fit into shared memory, on an H100 more than 929,000, long rows stay
// hashed.
//
// Input: any CSR matrices. Cost: B's rows once when counting, twice when multiplying. C's sums are added in
// L2.
//
// Source of the ranks: G. Jacobson ("Space-efficient static trees and graphs", FOCS 1989).

#include "08_spgemm_multigpu/bins.hpp"

namespace stages {
namespace {

using namespace spgemm;

constexpr unsigned kWarps = 8, kBlock = kWarps * kWarp;

/// Calls visit(column, product) for the products of a row, a warp a row of B.
template <class T, class Visit>
__device__ void for_products(View<T> a, View<T> b, Offset row, Visit visit) {
  for (Offset e = a.row_ptr[row] + threadIdx.x / kWarp; e < a.row_ptr[row + 1]; e += kWarps) {
    const Index k = a.col_idx[e];
    for (Offset q = b.row_ptr[k] + threadIdx.x % kWarp; q < b.row_ptr[k + 1]; q += kWarp)
      visit(b.col_idx[q], a.values[e] * b.values[q]);
  }
  __syncthreads();
}

/// A block a row: its number of results to counts, or (null) its results to C. `words`: of the bitmap.
template <class T>
__global__ void bitmap_rows(View<T> a, View<T> b, Rows rows, Index words, Index* counts, Output<T> c) {
  if (!rows.has(blockIdx.x)) return;
  unsigned* const bits = dynamic_shared<unsigned>();
  Index* const before = reinterpret_cast<Index*>(bits + words);
  for (Index w = Index(threadIdx.x); w < words; w += Index{kBlock}) bits[w] = 0;
  __syncthreads();
  for_products(a, b, blockIdx.x, [&](Index j, T) { atomicOr(&bits[j / 32], 1u << j % 32); });
  Index all = 0;
  for (Index w = Index(threadIdx.x); threadIdx.x < kWarp && w < words; w += Index{kWarp}) {
    const Index n = __popc(bits[w]), up_to_here = sum_up_to(n, threadIdx.x);
    before[w] = all + up_to_here - n;
    all += __shfl_sync(kAllLanes, up_to_here, kWarp - 1);
  }
  if (counts != nullptr && threadIdx.x == 0) counts[blockIdx.x] = all;
  if (counts != nullptr) return;
  __syncthreads();
  const Offset out = c.row_ptr[blockIdx.x];
  for (Index w = Index(threadIdx.x); w < words; w += Index{kBlock}) {
    Offset to = out + before[w];
    for (unsigned left = bits[w]; left != 0; left &= left - 1, ++to) {
      c.col_idx[to] = w * 32 + __ffs(static_cast<int>(left)) - 1;
      c.values[to] = T{0};
    }
  }
  __syncthreads();
  for_products(a, b, blockIdx.x, [&](Index j, T product) {
    const unsigned below = bits[j / 32] & lanes_below(static_cast<unsigned>(j % 32));
    atomicAdd(&c.values[out + before[j / 32] + __popc(below)], product);
  });
}

/// Rung 5's plan, whose last bin has bitmaps, where they fit into shared memory.
template <class T>
class Bitmaps final : public SortedRowsPlan<T> {
 public:
  Bitmaps(const SpgemmProblem<T>& problem, Exec& exec, const BinSlots& slots)
      : SortedRowsPlan<T>(problem, exec, slots, !takes(problem, slots)),
        words_(takes(problem, slots) ? words_for(problem) : 0) {}

  std::vector<Metric> metrics() const override {
    return {{"rows_in_bitmaps", words_ > 0 ? this->rows_in(this->counts_, this->slots_.back() / 2) : 0, ""}};
  }

 private:
  void count_long(View<T> a, View<T> b, Rows rows, Index* counts) override {
    if (words_ == 0) return SortedRowsPlan<T>::count_long(a, b, rows, counts);
    launch(bitmap_rows<T>, a_block_a_row(a.rows), a, b, rows, words_, counts, Output<T>{});
  }
  void multiply_long(View<T> a, View<T> b, Rows rows, const Output<T>& c) override {
    if (words_ == 0) return SortedRowsPlan<T>::multiply_long(a, b, rows, c);
    launch(bitmap_rows<T>, a_block_a_row(a.rows), a, b, rows, words_, nullptr, c);
  }
  Rows unsorted(const Index* counts) override {
    return this->bin(counts, 0, words_ > 0 ? this->slots_.back() / 2 : Rows{}.most);
  }

  /// Of 32 columns each, a multiple of a warp.
  static Index words_for(const SpgemmProblem<T>& problem) {
    return static_cast<Index>((Offset{problem.b->cols} + 1023) / 1024 * 32);
  }
  static std::size_t bytes_of(Index words) {
    return static_cast<std::size_t>(words) * (sizeof(unsigned) + sizeof(Index));
  }
  /// Whether there may be long rows, and bitmaps fit.
  static bool takes(const SpgemmProblem<T>& problem, const BinSlots& slots) {
    return problem.max_row_products > HashedPlan<T>::slots_that_fit(slots.back()) / 2 &&
           bytes_of(words_for(problem)) <= device_facts().shared_per_block_optin;
  }
  LaunchConfig a_block_a_row(Index rows) const {
    allow_shared_bytes(bitmap_rows<T>, bytes_of(words_));
    return {.grid = blocks_for(rows, 1),
            .block = kBlock,
            .shared_bytes = bytes_of(words_),
            .stream = this->stream()};
  }

  Index words_;  ///< 0: rung 5's tables
};

}  // namespace

void add_bitmaps(Registry& registry, const std::string& name, const BinSlots& slots) {
  registry.add<Bitmaps>({.name = name,
                         .idea = "as sorted_rows, but long rows are bitmaps that know ranks, not tables",
                         .previous = "sorted_rows",
                         .claims = {.bitwise_reproducible = false}},
                        slots);
}

}  // namespace stages
