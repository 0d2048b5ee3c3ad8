#pragma once
// Hash tables for the rows of a list, as rung 3 has them, for rungs 4 to 6: of any number of slots in shared
// memory, or in global memory. The slot is found by the multiplicative hash everywhere: where tables are small,
// `column & (slots - 1)` puts too many columns of a regular matrix into one slot.

#include <optional>

#include "08_spgemm_multigpu/long_rows.hpp"
#include "08_spgemm_multigpu/row_bins.hpp"
#include "08_spgemm_multigpu/stage.hpp"
#include "08_spgemm_multigpu/tables.hpp"
#include "08_spgemm_multigpu/walks.hpp"
#include "common/gpu/cuda.hpp"
#include "common/gpu/facts.hpp"

namespace stages::spgemm {

/// A warp a row of the list. Keys in global memory, one table a block, or (null) in shared memory. A row that
/// finds no slot within so many probes goes on the list `full`.
template <class Ptr>
__global__ void __launch_bounds__(kWarp)
    count_in_tables(Structures<Ptr> f, RowList list, Index* global_keys, unsigned slots, unsigned most_probes,
                    Index* counts, LongRows full) {
  const Index row = list.rows[blockIdx.x];
  Index* const keys =
      global_keys == nullptr ? dynamic_shared<Index>() : global_keys + std::size_t{blockIdx.x} * slots;
  for (unsigned s = threadIdx.x; s < slots; s += kWarp) keys[s] = kFree;
  __syncwarp();
  Index found = 0;
  const bool good = walk_by_rows_of_b(f, row, threadIdx.x, [&](Index column) {
    bool is_new = false;
    const unsigned slot = claim(keys, slots, home_of(column, slots), column, is_new, most_probes);
    found += is_new;
    return slot != kFull;
  });
  found = sum_over_warp(found);
  if (threadIdx.x > 0) return;
  if (good) {
    counts[row] = found;
  } else {
    full.rows[atomicAdd(full.count, 1)] = row;
  }
}

/// A warp a row of the list, each in a table that holds it: in global memory, or (no keys) in shared memory.
template <class T, class Ptr>
__global__ void __launch_bounds__(kWarp)
    multiply_in_tables(Factors<T, Ptr> f, RowList list, Tables<T> tables, Output<T> c) {
  const Index row = list.rows[blockIdx.x];
  const auto slots = static_cast<unsigned>(tables.slots);
  const std::size_t begin = std::size_t{blockIdx.x} * slots;
  const bool in_shared = tables.keys == nullptr;
  T* const values = in_shared ? dynamic_shared<T>() : tables.values + begin;
  Index* const keys = in_shared ? reinterpret_cast<Index*>(values + slots) : tables.keys + begin;
  for (unsigned s = threadIdx.x; s < slots; s += kWarp) {
    keys[s] = kFree;
    values[s] = T{0};
  }
  __syncwarp();
  walk_by_rows_of_b(f, row, threadIdx.x, [&](Index column, T product) {
    bool is_new = false;
    values[claim(keys, slots, home_of(column, slots), column, is_new)] += product;
    return true;
  });
  write_taken_slots(keys, values, slots, threadIdx.x, c.row_ptr[row], c);
}

/// Tables in shared memory, for rows of which the caller knows that they fit.
template <class T>
class SharedTables {
 public:
  explicit SharedTables(GpuExec& exec) : exec_(exec) {}

  /// Rows with no more results than slots.
  void count(const Structures<Offset>& f, RowList list, Index slots, Index* counts) {
    count_unless_full(f, list, slots, slots, counts, {});
  }
  void multiply(const Factors<T, Offset>& f, RowList list, Index slots, const Output<T>& c) {
    const std::size_t bytes = static_cast<std::size_t>(slots) * (sizeof(Index) + sizeof(T));
    allow_shared_bytes(multiply_in_tables<T, Offset>, bytes);
    launch(multiply_in_tables<T, Offset>, a_warp_a_row(list, bytes), f, list, Tables<T>{.slots = slots}, c);
  }

 protected:
  void count_unless_full(const Structures<Offset>& f, RowList list, Index slots, Index probes, Index* counts,
                         LongRows full) {
    const std::size_t bytes = static_cast<std::size_t>(slots) * sizeof(Index);
    allow_shared_bytes(count_in_tables<Offset>, bytes);
    launch(count_in_tables<Offset>, a_warp_a_row(list, bytes), f, list, nullptr, static_cast<unsigned>(slots),
           static_cast<unsigned>(probes), counts, full);
  }
  LaunchConfig a_warp_a_row(RowList list, std::size_t bytes) const {
    return {.grid = blocks_for(list.count, 1), .block = kWarp, .shared_bytes = bytes, .stream = stream()};
  }
  cudaStream_t stream() const { return exec_.stream(); }

  GpuExec& exec_;
};

/// And, as rungs 2 and 3 have it, for rows of any length.
template <class T>
class RowTables : public SharedTables<T> {
 public:
  RowTables(const SpgemmProblem<T>& problem, GpuExec& exec, const BinSizes& sizes)
      : SharedTables<T>(exec),
        sizes_(sizes),
        full_(static_cast<std::size_t>(problem.a->rows)),
        count_(1),
        read_(1) {
    const auto room = static_cast<Offset>(device_facts().shared_per_block_optin);
    while (sizes_.count_slots * Offset{sizeof(Index)} > room) sizes_.count_slots /= 2;
    if (longest_row(problem) > std::min({sizes_.slots[2] / 2, sizes_.count_slots, sizes_.most_probes}))
      global_.emplace(problem);
  }

  static double bytes(const SpgemmProblem<T>& problem) {
    const BinSizes sizes;
    return 4.0 * problem.a->rows + (longest_row(problem) > std::min(sizes.slots[2] / 2, sizes.most_probes)
                                        ? GlobalTables<T>::bytes(problem)
                                        : 0);
  }

  /// Rows of any length: in the largest table in shared memory, and those that fill it in global memory.
  void count_long(const Structures<Offset>& f, RowList list, Index* counts) {
    if (list.count == 0) return;
    count_.zero(this->stream());
    this->count_unless_full(f, list, sizes_.count_slots, sizes_.most_probes, counts,
                            {full_.data(), count_.data()});
    count_.download(read_, this->stream());
    this->exec_.synchronize();
    if (read_[0] == 0) return;
    global_->by_batches({full_.data(), read_[0]}, [&](RowList rows) {
      const Tables<T> tables = global_->view();
      const auto slots = static_cast<unsigned>(tables.slots);
      launch(count_in_tables<Offset>, this->a_warp_a_row(rows, 0), f, rows, tables.keys, slots, slots, counts,
             LongRows{});
    });
  }
  void multiply_long(const Factors<T, Offset>& f, RowList list, const Output<T>& c) {
    if (list.count == 0) return;
    global_->by_batches(list, [&](RowList rows) {
      launch(multiply_in_tables<T, Offset>, this->a_warp_a_row(rows, 0), f, rows, global_->view(), c);
    });
  }

 private:
  BinSizes sizes_;
  std::optional<GlobalTables<T>> global_;
  DeviceArray<Index> full_, count_;
  PinnedArray<Index> read_;
};

/// What the plans of rungs 4 and 5 share: bins, and tables for rows of any length.
template <class T>
class BinsWithTables : public BinsPlan<T> {
 public:
  BinsWithTables(const SpgemmProblem<T>& problem, Exec& exec, const BinSizes& sizes)
      : BinsPlan<T>(problem, exec, sizes), tables_(problem, this->exec(), sizes) {}

  static Cost cost(const SpgemmProblem<T>& problem) {
    return BinsPlan<T>::cost(problem).plus_memory(RowTables<T>::bytes(problem));
  }

 protected:
  /// The rows of the bins by products from `first` on.
  void count_in_bins(const Structures<Offset>& f, int first, Index* counts) {
    for (int k = first; k < kBins - 1; ++k) tables_.count(f, this->by_products_[k], this->slots(k), counts);
    tables_.count_long(f, this->by_products_[kBins - 1], counts);
  }
  /// The rows of all bins by results.
  void multiply_bins(const Factors<T, Offset>& f, const Output<T>& c) {
    for (int k = 0; k < kBins - 1; ++k) tables_.multiply(f, this->by_results_[k], this->slots(k), c);
    tables_.multiply_long(f, this->by_results_[kBins - 1], c);
  }

 private:
  RowTables<T> tables_;
};

}  // namespace stages::spgemm
