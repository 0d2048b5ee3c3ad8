#pragma once
// What rungs 1 to 6 share: A, B and C on the device, and the two passes around a rung's kernels. Nobody knows
// how large C is, so all is done twice: first the results of each row are counted, then C is allocated and
// filled. A rung gives count() and multiply(), and may say which rows are still unsorted then.

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "08_spgemm_multigpu/tables.hpp"
#include "common/gpu/plans.hpp"
#include "common/gpu/scan.hpp"

namespace stages::spgemm {

/// A factor as the rungs' kernels see it. Columns of a row ascend, and differ.
template <class T>
using View = CsrView<T, Offset>;

/// The rows of C that a launch is for: those with more < sizes[row] <= most. All rows have a block, and it
/// leaves at once where the row is another launch's. (Lists of rows would spare these blocks: fast/bins.cu.)
struct Rows {
  const Index* sizes = nullptr;  ///< in device memory
  Index more = 0;
  Index most = std::numeric_limits<Index>::max();
  const Index* products = nullptr;  ///< if given: and with more than `sorted` products
  Index sorted = 0;

  __device__ bool has(Offset row) const {
    return more < sizes[row] && sizes[row] <= most && (products == nullptr || products[row] > sorted);
  }
};

/// products[row], of which a row of C has no more results; at most 2^31 - 1. A warp a row, 8 rows a block.
template <class T>
__global__ void __launch_bounds__(8 * kWarp) count_products(View<T> a, View<T> b, Index* products) {
  const Offset row = Offset{blockIdx.x} * 8 + threadIdx.x / kWarp;
  if (row >= a.rows) return;  // the whole warp leaves
  Offset sum = 0;
  for (Offset e = a.row_ptr[row] + threadIdx.x % kWarp; e < a.row_ptr[row + 1]; e += kWarp) {
    const Index k = a.col_idx[e];
    sum += b.row_ptr[k + 1] - b.row_ptr[k];
  }
  sum = min(sum_over_warp(sum), Offset{std::numeric_limits<Index>::max()});
  if (threadIdx.x % kWarp == 0) products[row] = static_cast<Index>(sum);
}

/// A warp a row: columns ascending, values with them. In global memory, where the row lies.
template <class T>
__global__ void __launch_bounds__(kWarp) sort_rows(Rows rows, Output<T> c) {
  if (!rows.has(blockIdx.x)) return;
  const Offset begin = c.row_ptr[blockIdx.x];
  Index* const columns = c.col_idx + begin;
  T* const values = c.values + begin;
  sort_ascending(
      static_cast<Index>(c.row_ptr[blockIdx.x + 1] - begin), threadIdx.x, kWarp,
      [=](unsigned i, unsigned j) {
        if (columns[i] <= columns[j]) return;
        std::swap(columns[i], columns[j]);
        std::swap(values[i], values[j]);
      },
      [] { __syncwarp(); });
}

template <class T>
class TwoPassPlan : public SpgemmPlan<T> {
 public:
  static constexpr Needs kNeeds = {.gpu = true};
  TwoPassPlan(const SpgemmProblem<T>& problem, Exec& exec)
      : products_(static_cast<std::size_t>(problem.a->rows)),
        counts_(static_cast<std::size_t>(problem.a->rows)),
        exec_(as_gpu(exec)),
        a_(*problem.a),
        b_(*problem.b),
        total_(1) {
    scan_.reserve(a_.rows);
  }

  static Cost cost(const SpgemmProblem<T>& problem) {
    return problem_cost(problem).plus_memory(device_csr_bytes(*problem.a) + device_csr_bytes(*problem.b) +
                                             20.0 * problem.a->rows + 4.0 * problem.b->rows);
  }

  void load(const SpgemmOperands<T>& operands) override {
    a_.values.upload(operands.a_values, stream());
    b_.values.upload(operands.b_values, stream());
    exec_.synchronize();
  }
  void reset() override { c_ = {}; }

  void run() override {
    c_ = {};
    {
      Phase phase(exec_, "symbolic");
      counts_.zero(stream());
      launch(count_products<T>, {.grid = blocks_for(a_.rows, 8), .block = 8 * kWarp, .stream = stream()},
             a_.view(), b_.view(), products_.data());
      count(a_.view(), b_.view(), products_.data(), counts_.data());
      c_.row_ptr = DeviceArray<Offset>(static_cast<std::size_t>(a_.rows) + 1);
      scan_.run(counts_.data(), c_.row_ptr.data(), a_.rows, stream());
      STAGES_CUDA(cudaMemcpyAsync(total_.data(), c_.row_ptr.data() + a_.rows, sizeof(Offset),
                                  cudaMemcpyDeviceToHost, stream()));
      exec_.synchronize();
    }
    {
      Phase phase(exec_, "allocation");
      c_.col_idx = DeviceArray<Index>(static_cast<std::size_t>(total_[0]));
      c_.values = DeviceArray<T>(static_cast<std::size_t>(total_[0]));
    }
    const Output<T> c{c_.row_ptr.data(), 0, c_.col_idx.data(), c_.values.data()};
    {
      Phase phase(exec_, "numeric");
      multiply(a_.view(), b_.view(), counts_.data(), c);
    }
    Phase phase(exec_, "sort");
    launch(sort_rows<T>, a_warp_a_row(), unsorted(counts_.data()), c);
  }

  Csr<T> fetch() override { return csr_to_host<T>(c_, a_.rows, b_.cols, exec_); }

 protected:
  /// counts[row] = results of the row, of which there are no more than products[row]; they are 0 before.
  virtual void count(View<T> a, View<T> b, const Index* products, Index* counts) = 0;
  virtual void multiply(View<T> a, View<T> b, const Index* counts, const Output<T>& c) = 0;
  /// The rows whose columns do not ascend yet.
  virtual Rows unsorted(const Index* counts) { return {counts}; }

  /// How many rows of the last run have sizes (products_, or counts_: results) in a range.
  double rows_in(const DeviceArray<Index>& sizes, Index more, Index most = Rows{}.most) const {
    std::vector<Index> all(sizes.size());
    sizes.download(all, stream());
    exec_.synchronize();
    return static_cast<double>(std::ranges::count_if(all, [&](Index n) { return more < n && n <= most; }));
  }

  LaunchConfig a_warp_a_row(std::size_t shared_bytes = 0) const {
    return {.grid = blocks_for(a_.rows, 1), .block = kWarp, .shared_bytes = shared_bytes, .stream = stream()};
  }
  cudaStream_t stream() const { return exec_.stream(); }

  DeviceArray<Index> products_, counts_;  ///< of each row

 private:
  GpuExec& exec_;
  DeviceCsr<T, Offset> a_, b_, c_;
  PinnedArray<Offset> total_;
  PrefixSum<Index, Offset> scan_;
};

}  // namespace stages::spgemm
