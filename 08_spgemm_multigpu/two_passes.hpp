#pragma once
// What rungs 1 to 6 share: A, B and C on the device, and the two passes around a rung's kernels. Nobody knows
// how large C is, so all is done twice: first the results of each row are counted, then C is allocated and
// filled. A rung gives count() and multiply(), and may say which rows are still unsorted then.

#include "08_spgemm_multigpu/tables.hpp"
#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"
#include "common/gpu/scan.hpp"

namespace stages::spgemm {

/// A warp a row, of the list or (where that has no rows of its own) of all: columns ascending, values with
/// them. In global memory, where the row lies.
template <class T>
__global__ void __launch_bounds__(kWarp) sort_rows(RowList list, Output<T> c) {
  const unsigned row = list.rows == nullptr ? blockIdx.x : static_cast<unsigned>(list.rows[blockIdx.x]);
  const Offset begin = c.row_ptr[row];
  Index* const columns = c.col_idx + begin;
  T* const values = c.values + begin;
  sort_ascending(
      static_cast<Index>(c.row_ptr[row + 1] - begin), threadIdx.x, kWarp,
      [=](unsigned i, unsigned j) {
        const Index low = columns[i], high = columns[j];
        if (low <= high) return;
        const T kept = values[i];
        columns[i] = high;
        columns[j] = low;
        values[i] = values[j];
        values[j] = kept;
      },
      [] { __syncwarp(); });
}

/// Row pointers have 64 bits, so that any C can be counted.
template <class T>
class TwoPassPlan : public SpgemmPlan<T> {
 public:
  static constexpr Needs kNeeds = {.gpu = true};
  TwoPassPlan(const SpgemmProblem<T>& problem, Exec& exec)
      : exec_(as_gpu(exec)),
        a_(*problem.a),
        b_(*problem.b),
        counts_(static_cast<std::size_t>(a_.rows)),
        total_(1) {
    scan_.reserve(a_.rows);
  }

  static Cost cost(const SpgemmProblem<T>& problem) {
    const Csr<T>&a = *problem.a, &b = *problem.b;
    return problem_cost(problem).plus_memory(static_cast<double>(sizeof(Index) + sizeof(T)) *
                                                 static_cast<double>(a.nnz() + b.nnz()) +
                                             8.0 * (b.rows + 1.0) + 12.0 * (a.rows + 1.0));
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
      const Factors<T, Offset> f = factors();
      count(f.structures(), counts_.data());
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
      multiply(factors(), counts_.data(), c);
    }
    Phase phase(exec_, "sort");
    sort(c);
  }

  Csr<T> fetch() override { return csr_to_host<T>(c_, a_.rows, b_.cols, exec_); }

 protected:
  /// counts[row] = results of the row; they are 0 before.
  virtual void count(const Structures<Offset>& f, Index* counts) = 0;
  virtual void multiply(const Factors<T, Offset>& f, const Index* counts, const Output<T>& c) = 0;
  /// Columns must ascend: sorts all rows.
  virtual void sort(const Output<T>& c) { sort_list({nullptr, rows()}, c); }

  void sort_list(RowList list, const Output<T>& c) {
    launch(sort_rows<T>, a_warp_a_row(list.count), list, c);
  }
  /// A block of a warp for each row.
  LaunchConfig a_warp_a_row(Index rows, std::size_t shared_bytes = 0) const {
    return {.grid = blocks_for(rows, 1), .block = kWarp, .shared_bytes = shared_bytes, .stream = stream()};
  }
  Index rows() const { return a_.rows; }
  GpuExec& exec() { return exec_; }
  cudaStream_t stream() const { return exec_.stream(); }

 private:
  Factors<T, Offset> factors() const { return {a_.view(), b_.view()}; }

  GpuExec& exec_;
  DeviceCsr<T, Offset> a_, b_, c_;
  DeviceArray<Index> counts_;
  PinnedArray<Offset> total_;
  PrefixSum<Index, Offset> scan_;
};

}  // namespace stages::spgemm
