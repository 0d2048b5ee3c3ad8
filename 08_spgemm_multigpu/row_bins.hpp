#pragma once
// Rows of C in bins by their size, for rungs 4 to 6: the device writes the lists, the host reads their lengths.

#include <limits>

#include "08_spgemm_multigpu/stage.hpp"
#include "08_spgemm_multigpu/two_passes.hpp"

namespace stages::spgemm {

inline constexpr int kBins = 4;

/// The sizes that bins 0, 1 and 2 go up to; all larger rows are in bin 3. Rows of size 0, and those with at
/// most `other` products, which another kernel has, are in none.
struct BinRule {
  Index small = 0;
  Index medium = 0;
  Index large = 0;
  Index other = 0;

  __device__ int bin_of(Index size) const {
    return size <= small ? 0 : size <= medium ? 1 : size <= large ? 2 : 3;
  }
};

/// products[row], or 2^31 - 1 where there are more. A warp a row, 8 rows a block.
template <class Ptr>
__global__ void __launch_bounds__(8 * kWarp) count_products(Structures<Ptr> f, Index* products) {
  const Offset row = Offset{blockIdx.x} * 8 + threadIdx.x / kWarp;
  if (row >= f.a.rows) return;  // the whole warp leaves
  const Ptr end = f.a.row_ptr[row + 1];
  Offset sum = 0;
  for (Ptr e = f.a.row_ptr[row] + static_cast<Ptr>(threadIdx.x % kWarp); e < end; e += Ptr{kWarp}) {
    const Index k = f.a.col_idx[e];
    sum += f.b.row_ptr[k + 1] - f.b.row_ptr[k];
  }
  sum = min(sum_over_warp(sum), Offset{std::numeric_limits<Index>::max()});
  if (threadIdx.x % kWarp == 0) products[row] = static_cast<Index>(sum);
}

/// Writes each row on the list of its bin: bin k's begins at lists + k * rows. A thread a row. The lanes of a
/// warp with rows of one bin take their places together: one atomic operation, where each lane's own would
/// wait for those of all others.
inline __global__ void __launch_bounds__(256) fill_bins(const Index* sizes, const Index* products, Index rows,
                                                        BinRule rule, Index* lists, Index* counts) {
  const Offset row = Offset{blockIdx.x} * 256 + threadIdx.x;
  const unsigned lane = threadIdx.x % kWarp;
  const bool has_bin = row < rows && sizes[row] > 0 && products[row] > rule.other;
  const int bin = has_bin ? rule.bin_of(sizes[row]) : kBins;
  for (int k = 0; k < kBins; ++k) {
    const unsigned lanes = __ballot_sync(kAllLanes, bin == k);
    if (lanes == 0) continue;
    Index first = 0;
    if (lane == 0) first = atomicAdd(&counts[k], __popc(lanes));
    first = __shfl_sync(kAllLanes, first, 0);
    if (bin != k) continue;
    const Index place = first + __popc(lanes & lanes_below(lane));
    lists[Offset{k} * rows + place] = static_cast<Index>(row);
  }
}

class RowBins {
 public:
  explicit RowBins(Index rows)
      : rows_(rows), lists_(static_cast<std::size_t>(rows) * kBins), counts_(kBins), read_(kBins) {}

  /// Sizes and products of the rows are in device memory. Waits for the lengths of the lists.
  void fill(const Index* sizes, const Index* products, const BinRule& rule, GpuExec& exec) {
    counts_.zero(exec.stream());
    launch(fill_bins, {.grid = blocks_for(rows_, 256), .block = 256, .stream = exec.stream()}, sizes,
           products, rows_, rule, lists_.data(), counts_.data());
    counts_.download(read_, exec.stream());
    exec.synchronize();
  }
  RowList operator[](int bin) const {
    const auto k = static_cast<std::size_t>(bin);
    return {lists_.data() + k * static_cast<std::size_t>(rows_), read_[k]};
  }

 private:
  Index rows_;
  DeviceArray<Index> lists_, counts_;
  PinnedArray<Index> read_;
};

/// What the plans of rungs 4 to 6 share: rows in bins, by products to count, and by results to multiply.
template <class T>
class BinsPlan : public TwoPassPlan<T> {
 public:
  BinsPlan(const SpgemmProblem<T>& problem, Exec& exec, const BinSizes& sizes)
      : TwoPassPlan<T>(problem, exec),
        sizes_(sizes),
        products_(static_cast<std::size_t>(this->rows())),
        by_products_(this->rows()),
        by_results_(this->rows()) {}

  static Cost cost(const SpgemmProblem<T>& problem) {
    return TwoPassPlan<T>::cost(problem).plus_memory((2.0 * kBins + 1) * sizeof(Index) * problem.a->rows);
  }

 protected:
  Index slots(int bin) const { return sizes_.slots[static_cast<std::size_t>(bin)]; }
  /// Rows that fill the tables by half at most; `other`: as in BinRule.
  BinRule half_full(Index other = 0) const { return {slots(0) / 2, slots(1) / 2, slots(2) / 2, other}; }

  void bin_by_products(const Structures<Offset>& f, const BinRule& rule) {
    launch(count_products<Offset>,
           {.grid = blocks_for(this->rows(), 8), .block = 8 * kWarp, .stream = this->stream()}, f,
           products_.data());
    by_products_.fill(products_.data(), products_.data(), rule, this->exec());
  }
  void bin_by_results(const Index* counts, const BinRule& rule) {
    by_results_.fill(counts, products_.data(), rule, this->exec());
  }

  BinSizes sizes_;
  DeviceArray<Index> products_;
  RowBins by_products_, by_results_;
};

// The kernels of 5_sorted_rows.cu, for the rungs from there on.

inline constexpr Index kMostShort = 128;  ///< products of a row that these take

void count_short_rows(const Structures<Offset>& f, RowList list, Index* counts, cudaStream_t stream);
/// Columns come out ascending.
template <class T>
void multiply_short_rows(const Factors<T, Offset>& f, RowList list, const Output<T>& c, cudaStream_t stream);

}  // namespace stages::spgemm
