#pragma once
// One product with rows in bins, as calls that wait for nothing: what is known of each row of C, on the device,
// and which kernel computes the rows of a form. How many rows a form has is for others to know: binned.cu
// waits until the device tells, recorded.cu goes by bounds.

#include <array>
#include <limits>

#include "08_spgemm_multigpu/fast/bins.hpp"
#include "08_spgemm_multigpu/fast/forms.hpp"
#include "08_spgemm_multigpu/fast/side_streams.hpp"
#include "common/gpu/facts.hpp"
#include "common/gpu/plans.hpp"
#include "common/gpu/pool.hpp"
#include "common/gpu/scan.hpp"

namespace stages::spgemm {

/// Columns and values in device memory.
template <class T>
struct NonZeros {
  PooledArray<Index> col_idx;
  PooledArray<T> values;

  NonZeros() = default;
  /// Throws OutOfDeviceMemory.
  NonZeros(MemoryPool& pool, Offset count, cudaStream_t stream)
      : col_idx(pool, static_cast<std::size_t>(count), stream),
        values(pool, static_cast<std::size_t>(count), stream) {}

  static constexpr double kBytes = sizeof(Index) + sizeof(T);  ///< of one

  /// The first `count` of them. Asynchronous.
  void copy_to_host(Offset count, Index* columns, T* numbers, cudaStream_t stream) const {
    const auto size = static_cast<std::size_t>(count);
    if (size == 0) return;
    STAGES_CUDA(
        cudaMemcpyAsync(columns, col_idx.data(), size * sizeof(Index), cudaMemcpyDeviceToHost, stream));
    STAGES_CUDA(cudaMemcpyAsync(numbers, values.data(), size * sizeof(T), cudaMemcpyDeviceToHost, stream));
  }
};

/// Which of a row's two forms: the one that counts its results, or the one that then computes them.
enum class Pass { counting, multiplying };

template <class T, class Ptr>
class Passes {
 public:
  /// For results of that shape. Where lists are `apart`, that of form k begins at k * rows, else where the one
  /// before ends.
  Passes(GpuExec& exec, Index rows, Index cols, bool apart);

  /// Goes by `asked`, with what is one warp's work when there are `products` in all, and what this device's
  /// shared memory holds. Rows of more than `long_row` non-zeros of A are left out. A C of few rows has no
  /// bands: looking for their ranges pays where a thread a row would keep the device busy.
  void set_rules(const Rules& asked, Offset products, Index long_row = std::numeric_limits<Index>::max());
  const Rules& rules() const { return rules_; }

  /// From now on bitmaps count by words, of a B with so many rows and non-zeros (words.hpp).
  void use_words(Index rows, std::size_t entries);
  /// Room to cut so many rows into parts, which a large bitmap counts. Throws OutOfDeviceMemory.
  void take_parts(Index long_rows);

  /// The facts of each row, and its counting form; `lanes`: of lanes_for(). Words are complete after
  /// side().join().
  void analyse(const Factors<T, Ptr>& f, unsigned lanes);
  /// Fills the lists with rows first_row .. end_row - 1, and has the device tell how many rows each form has.
  void fill(Pass pass, Index first_row, Index end_row);
  void count(const Factors<T, Ptr>& f, Form form, RowList list, cudaStream_t stream);
  /// C's row pointers from the counts of all rows.
  void add_up_counts() { scan_.run(counts_.data(), row_ptr_.data(), rows_, stream()); }
  /// By the counts. The tallies are 0 the first time after analyse().
  void choose_multiplying(Index first_row, Index end_row);
  void multiply(const Factors<T, Ptr>& f, Form form, RowList list, const Output<T>& c, cudaStream_t stream);

  /// What rows of that bin get when there are so many of them.
  Form form_of(Form bin, Index rows) const { return form_for_so_many(rules_, bin, rows, device_facts().sms); }
  /// After fill() of the multiplying pass, once the device has come so far.
  const Told& told() const { return *told_.data(); }
  const Index* list() const { return list_.data(); }
  Index* tally(Pass pass) { return tallies_.data() + (pass == Pass::counting ? 2 * kForms : 0); }
  void clear_tallies() { tallies_.zero(stream()); }
  Index* counts() { return counts_.data(); }
  DeviceArray<Offset>& row_ptr() { return row_ptr_; }
  SideStreams& side() { return side_; }
  MemoryPool& pool() { return pool_; }
  cudaStream_t stream() const { return exec_.stream(); }

  /// C on the host, from device memory.
  Csr<T> fetch(const NonZeros<T>& c);

  /// Figures of a product with so many non-zeros of A and B together. Of each bin: how many rows it has, and
  /// for how many it was launched.
  using RowsOfBins = std::array<Index, kForms>;
  std::vector<Metric> metrics(std::size_t entries, const RowsOfBins& sizes, const RowsOfBins& launched) const;

 private:
  Facts facts() {
    return {products_.data(), first_.data(), width_.data(), counting_.data(), counts_.data(), slot_.data()};
  }
  Parts parts();
  Words<Ptr> words() const {
    return words_.empty() ? Words<Ptr>{} : Words<Ptr>{words_.data(), word_ends_.data()};
  }

  GpuExec& exec_;
  Index rows_, cols_;
  Index apart_;  ///< as fill_lists() wants it
  Rules rules_;
  DeviceArray<Offset> products_;
  DeviceArray<Index> first_, width_;
  DeviceArray<Form> counting_, multiplying_;
  DeviceArray<Index> slot_, counts_, list_;
  DeviceArray<Offset> row_ptr_;
  DeviceArray<Index> tallies_;  ///< rows of each form and fill_lists' cursors; for multiplying, for counting
  PinnedArray<Told> told_;
  PrefixSum<Index, Offset> scan_;
  SideStreams side_;
  MemoryPool pool_;
  PooledArray<Index> parts_before_;
  DeviceArray<uint2> words_;  ///< of B, if it is counted by words
  DeviceArray<Ptr> word_ends_;
};

}  // namespace stages::spgemm
