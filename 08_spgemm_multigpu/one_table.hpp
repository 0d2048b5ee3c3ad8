#pragma once
// What rungs 2 and 3 share: the kernels around what makes a row, and the host's side, with one size of table in
// shared memory for nearly all rows.

#include <optional>

#include "08_spgemm_multigpu/long_rows.hpp"
#include "08_spgemm_multigpu/stage.hpp"
#include "08_spgemm_multigpu/two_passes.hpp"
#include "common/gpu/facts.hpp"

namespace stages::spgemm {

/// Where a column would like to be: in tables in shared memory, and in global memory.
__device__ inline unsigned home(Index column, unsigned slots, bool in_global) {
  return in_global ? home_of(column, slots) : static_cast<unsigned>(column) & (slots - 1);
}

// The kernels, a block of a warp a row. `Walk` is the rung's, and makes a row in a table:
//   Walk::count(f, row, keys, slots, in_global, most_probes, counts)   false: a column found no slot within so
//                                                                      many probes
//   Walk::multiply(f, row, keys, values, slots, in_global, c)          in a table that holds the row, which it
//                                                                      writes out in the order of the slots

/// Rows for which the table is too full go to the list `full`, and are marked.
template <class Walk, class Ptr>
__global__ void __launch_bounds__(kWarp) count_rows(Structures<Ptr> f, unsigned slots, unsigned most_probes,
                                                    Index* counts, LongRows full, unsigned char* is_full) {
  const Index row = static_cast<Index>(blockIdx.x);
  const bool good = Walk::count(f, row, dynamic_shared<Index>(), slots, false, most_probes, counts);
  if (threadIdx.x > 0) return;
  is_full[row] = !good;
  if (!good) full.rows[atomicAdd(full.count, 1)] = row;
}

/// Those rows again, with keys in global memory.
template <class Walk, class Ptr>
__global__ void __launch_bounds__(kWarp)
    count_full_rows(Structures<Ptr> f, RowList list, Index* keys, unsigned slots, Index* counts) {
  Walk::count(f, list.rows[blockIdx.x], keys + std::size_t{blockIdx.x} * slots, slots, true, slots, counts);
}

/// Rows with at most `most` results; the others leave at once.
template <class Walk, class T, class Ptr>
__global__ void __launch_bounds__(kWarp)
    multiply_rows(Factors<T, Ptr> f, Index most, unsigned slots, Output<T> c) {
  const Index row = static_cast<Index>(blockIdx.x);
  const Offset results = c.row_ptr[row + 1] - c.row_ptr[row];
  if (results == 0 || results > most) return;
  T* const values = dynamic_shared<T>();
  Walk::multiply(f, row, reinterpret_cast<Index*>(values + slots), values, slots, false, c);
}

/// The rows of the list. Keys are in shared memory where that was enough to count them, values never.
/// `shared_slots` is not more than the slots of the tables.
template <class Walk, class T, class Ptr>
__global__ void __launch_bounds__(kWarp)
    multiply_long_rows(Factors<T, Ptr> f, RowList list, const unsigned char* is_full, unsigned shared_slots,
                       Tables<T> tables, Output<T> c) {
  const Index row = list.rows[blockIdx.x];
  const bool in_global = is_full[row] != 0;
  const std::size_t begin = std::size_t{blockIdx.x} * static_cast<std::size_t>(tables.slots);
  Walk::multiply(f, row, in_global ? tables.keys + begin : dynamic_shared<Index>(), tables.values + begin,
                 in_global ? static_cast<unsigned>(tables.slots) : shared_slots, in_global, c);
}

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

template <class T, class Walk>
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

 private:
  void count(const Structures<Offset>& f, Index* counts) final {
    const auto slots = static_cast<unsigned>(sizes_.count_slots);
    const std::size_t bytes = slots * sizeof(Index);
    numbers_.zero(this->stream());
    allow_shared_bytes(count_rows<Walk, Offset>, bytes);
    launch(count_rows<Walk, Offset>, this->a_warp_a_row(this->rows(), bytes), f, slots,
           static_cast<unsigned>(sizes_.most_probes), counts, list(), is_full_.data());
    full_rows_ = read_numbers();
    if (full_rows_ == 0) return;
    tables_->by_batches({list_.data(), full_rows_}, [&](RowList rows) {
      const Tables<T> tables = tables_->view();
      launch(count_full_rows<Walk, Offset>, this->a_warp_a_row(rows.count), f, rows, tables.keys,
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
    allow_shared_bytes(multiply_rows<Walk, T, Offset>, bytes);
    launch(multiply_rows<Walk, T, Offset>, this->a_warp_a_row(this->rows(), bytes), f, sizes_.shared_results,
           static_cast<unsigned>(slots_), c);
    if (long_rows_ == 0) return;
    const Tables<T> tables = tables_->view();
    const std::size_t key_bytes = static_cast<std::size_t>(sizes_.count_slots) * sizeof(Index);
    allow_shared_bytes(multiply_long_rows<Walk, T, Offset>, key_bytes);
    tables_->by_batches({list_.data(), long_rows_}, [&](RowList rows) {
      launch(multiply_long_rows<Walk, T, Offset>, this->a_warp_a_row(rows.count, key_bytes), f, rows,
             is_full_.data(), static_cast<unsigned>(std::min<Offset>(sizes_.count_slots, tables.slots)),
             tables, c);
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

/// `Walk` counts and multiplies, as above.
template <class Walk>
Factory one_table(const HashSizes& sizes) {
  return plans<OneTablePlan<float, Walk>, OneTablePlan<double, Walk>>(sizes);
}

}  // namespace stages::spgemm
