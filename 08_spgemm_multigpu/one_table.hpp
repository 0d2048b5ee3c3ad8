#pragma once
// The host's side of rungs 2 and 3: the same kernels, in the same order, with one size of table in shared
// memory for nearly all rows.

#include <optional>

#include "08_spgemm_multigpu/long_rows.hpp"
#include "08_spgemm_multigpu/stage.hpp"
#include "08_spgemm_multigpu/two_passes.hpp"
#include "common/gpu/facts.hpp"

namespace stages::spgemm {

/// A rung's kernels: what each does is said where it stands.
template <class T>
struct OneTableKernels {
  void (*count_rows)(Structures<Offset>, unsigned, unsigned, Index*, LongRows, unsigned char*);
  void (*count_full_rows)(Structures<Offset>, RowList, Index*, unsigned, Index*);
  void (*multiply_rows)(Factors<T, Offset>, Index, unsigned, Output<T>);
  void (*multiply_long_rows)(Factors<T, Offset>, RowList, const unsigned char*, unsigned, Tables<T>,
                             Output<T>);
};

/// Lists the rows with more than `most` results, and finds the longest of the others. A thread a row.
inline __global__ void list_long_rows(const Index* counts, Index rows, Index most, LongRows lists,
                                      Index* longest) {
  const Offset row = Offset{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  if (counts[row] > most) {
    lists.rows[atomicAdd(lists.count, 1)] = static_cast<Index>(row);
  } else {
    atomicMax(longest, counts[row]);
  }
}

template <class T>
class OneTablePlan : public TwoPassPlan<T> {
 public:
  OneTablePlan(const SpgemmProblem<T>& problem, Exec& exec, const HashSizes& sizes)
      : TwoPassPlan<T>(problem, exec),
        sizes_(fitted(sizes)),
        list_(static_cast<std::size_t>(this->rows())),
        is_full_(static_cast<std::size_t>(this->rows())),
        numbers_(2),
        read_(2) {
    if (needs_tables(problem, sizes_)) tables_.emplace(problem);
  }

  static Cost cost(const SpgemmProblem<T>& problem) {
    Cost cost = TwoPassPlan<T>::cost(problem);
    const HashSizes sizes;
    cost.work += static_cast<double>(sizes.count_slots) / kWarp * problem.a->rows;
    cost.memory += 5.0 * (problem.a->rows + 1.0);
    if (needs_tables(problem, sizes)) cost.memory += GlobalTables<T>::bytes(problem);
    return cost;
  }

  std::vector<Metric> metrics() const override {
    return {{"rows_that_filled_the_table", static_cast<double>(full_rows_), ""},
            {"rows_in_global_memory", static_cast<double>(long_rows_), ""},
            {"slots", static_cast<double>(slots_), ""}};
  }

 protected:
  virtual OneTableKernels<T> kernels() const = 0;

 private:
  void count(const Structures<Offset>& f, Index* counts) final {
    const auto slots = static_cast<unsigned>(sizes_.count_slots);
    const std::size_t bytes = slots * sizeof(Index);
    numbers_.zero(this->stream());
    allow_shared_bytes(kernels().count_rows, bytes);
    launch(kernels().count_rows, a_block_a_row(this->rows(), bytes), f, slots,
           static_cast<unsigned>(sizes_.most_probes), counts, list(), is_full_.data());
    full_rows_ = read_numbers();
    if (full_rows_ == 0) return;
    tables_->by_batches({list_.data(), full_rows_}, [&](RowList rows) {
      const Tables<T> tables = tables_->view();
      launch(kernels().count_full_rows, a_block_a_row(rows.count, 0), f, rows, tables.keys,
             static_cast<unsigned>(tables.slots), counts);
    });
  }

  void multiply(const Factors<T, Offset>& f, const Index* counts, const Output<T>& c) final {
    numbers_.zero(this->stream());
    launch(list_long_rows, {.grid = blocks_for(this->rows(), 256), .block = 256, .stream = this->stream()},
           counts, this->rows(), sizes_.shared_results, list(), numbers_.data() + 1);
    long_rows_ = read_numbers();
    slots_ = power_of_two(read_[1]);  // at most that of sizes_.shared_results
    const std::size_t bytes = static_cast<std::size_t>(slots_) * (sizeof(Index) + sizeof(T));
    allow_shared_bytes(kernels().multiply_rows, bytes);
    launch(kernels().multiply_rows, a_block_a_row(this->rows(), bytes), f, sizes_.shared_results,
           static_cast<unsigned>(slots_), c);
    if (long_rows_ == 0) return;
    const Tables<T> tables = tables_->view();
    const std::size_t key_bytes = static_cast<std::size_t>(sizes_.count_slots) * sizeof(Index);
    allow_shared_bytes(kernels().multiply_long_rows, key_bytes);
    tables_->by_batches({list_.data(), long_rows_}, [&](RowList rows) {
      launch(kernels().multiply_long_rows, a_block_a_row(rows.count, key_bytes), f, rows, is_full_.data(),
             static_cast<unsigned>(std::min<Offset>(sizes_.count_slots, tables.slots)), tables, c);
    });
  }

  static bool needs_tables(const SpgemmProblem<T>& problem, const HashSizes& sizes) {
    return longest_row(problem) > std::min({sizes.shared_results, sizes.count_slots, sizes.most_probes});
  }
  /// Sizes whose tables a block of this device can have.
  static HashSizes fitted(HashSizes sizes) {
    const auto room = static_cast<Offset>(device_facts().shared_per_block_optin);
    while (sizes.count_slots * Offset{sizeof(Index)} > room) sizes.count_slots /= 2;
    while (power_of_two(sizes.shared_results) * Offset{sizeof(Index) + sizeof(T)} > room)
      sizes.shared_results /= 2;
    return sizes;
  }

  LaunchConfig a_block_a_row(Index rows, std::size_t bytes) const {
    return {.grid = blocks_for(rows, 1), .block = kWarp, .shared_bytes = bytes, .stream = this->stream()};
  }
  LongRows list() { return {list_.data(), numbers_.data()}; }
  /// numbers_ on the host; the first of them.
  Index read_numbers() {
    numbers_.download(read_, this->stream());
    this->exec().synchronize();
    return read_[0];
  }

  HashSizes sizes_;
  std::optional<GlobalTables<T>> tables_;
  DeviceArray<Index> list_;
  DeviceArray<unsigned char> is_full_;  ///< the table in shared memory would not do for the row
  DeviceArray<Index> numbers_;          ///< rows on the list, and the longest of the others
  PinnedArray<Index> read_;
  Index full_rows_ = 0, long_rows_ = 0;
  Offset slots_ = 0;
};

}  // namespace stages::spgemm
