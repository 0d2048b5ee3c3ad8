#pragma once
// What rungs 2 to 5 need for rows that no table in shared memory holds: lists of rows, and hash tables in
// global memory, of which there are only as many as fit at once.

#include <algorithm>
#include <bit>

#include "08_spgemm_multigpu/rows.hpp"
#include "common/gpu/plans.hpp"

namespace stages::spgemm {

/// A list of rows that a kernel makes, in device memory.
struct LongRows {
  Index* rows = nullptr;
  Index* count = nullptr;  ///< how many
};

/// Tables in global memory, one a block: number b at slots [b * slots, (b + 1) * slots).
template <class T>
struct Tables {
  Index* keys = nullptr;
  T* values = nullptr;
  Offset slots = 0;
};

/// The smallest power of two that holds n.
inline Offset power_of_two(Offset n) {
  return static_cast<Offset>(std::bit_ceil(static_cast<std::uint64_t>(std::max<Offset>(n, 1))));
}

/// What no row of C exceeds.
template <class T>
Offset longest_row(const SpgemmProblem<T>& problem) {
  return std::min<Offset>(problem.max_row_products, problem.b->cols);
}

/// Tables that hold any row of the problem and are half full at most (of more than 2^30 columns: full), in
/// 256 MiB, or one, where that is larger.
template <class T>
class GlobalTables {
 public:
  explicit GlobalTables(const SpgemmProblem<T>& problem) : slots_(slots_for(problem)) {
    const double at_once =
        std::clamp(kBytes / table_bytes(slots_), 1.0, std::max(1.0, 1.0 * problem.a->rows));
    const auto slots = static_cast<std::size_t>(at_once) * static_cast<std::size_t>(slots_);
    keys_ = DeviceArray<Index>(slots);
    values_ = DeviceArray<T>(slots);
  }

  static double bytes(const SpgemmProblem<T>& problem) {
    return std::max(kBytes, table_bytes(slots_for(problem)));
  }

  Tables<T> view() { return {keys_.data(), values_.data(), slots_}; }

  /// Calls with(rows) for parts of the list that have a table for each row.
  template <class With>
  void by_batches(RowList list, With&& with) const {
    if (list.count == 0) return;
    const auto at_once = static_cast<Index>(keys_.size() / static_cast<std::size_t>(slots_));
    for (Index first = 0; first < list.count; first += std::min(at_once, list.count - first))
      with(RowList{list.rows + first, std::min(at_once, list.count - first)});
  }

 private:
  static constexpr double kBytes = 256.0 * (1U << 20);
  static Offset slots_for(const SpgemmProblem<T>& problem) {
    return std::min(power_of_two(2 * longest_row(problem)), Offset{1} << 31);
  }
  static double table_bytes(Offset slots) {
    return static_cast<double>(slots) * static_cast<double>(sizeof(Index) + sizeof(T));
  }

  Offset slots_;
  DeviceArray<Index> keys_;
  DeviceArray<T> values_;
};

}  // namespace stages::spgemm
