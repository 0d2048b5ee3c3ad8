#pragma once
// The host's side of rungs 2 to 6: tables in shared memory and in global memory, and their launches.

#include <bit>
#include <optional>

#include "08_spgemm_multigpu/stage.hpp"
#include "08_spgemm_multigpu/two_passes.hpp"
#include "common/gpu/facts.hpp"

namespace stages::spgemm {

/// A table for each block: in shared memory, or number blockIdx.x of those in global memory.
template <class T>
struct Tables {
  unsigned slots = 0;
  Index* global_keys = nullptr;  ///< null: in shared memory
  T* global_values = nullptr;

  __device__ Index* keys() const {
    return global_keys == nullptr ? dynamic_shared<Index>() : global_keys + std::size_t{blockIdx.x} * slots;
  }
  __device__ T* values() const {
    return global_keys == nullptr ? reinterpret_cast<T*>(dynamic_shared<Index>() + slots)
                                  : global_values + std::size_t{blockIdx.x} * slots;
  }
  /// All lanes of the warp call it; it waits for what they did before, and what they do after waits for it.
  __device__ void clear_keys() const {
    __syncwarp();
    for (unsigned s = threadIdx.x; s < slots; s += kWarp) keys()[s] = kFree;
    __syncwarp();
  }
  __device__ void clear() const {
    __syncwarp();
    for (unsigned s = threadIdx.x; s < slots; s += kWarp) values()[s] = T{0};
    clear_keys();
  }
};

/// Kernels that count, or add up, the rows that they are given in tables with twice the slots that a row needs.
/// A block takes row blockIdx.x, and every gridDim.x-th after it.
template <class T>
struct HashKernels {
  void (*count)(View<T> a, View<T> b, Rows rows, Tables<T> tables, Index* counts);
  void (*multiply)(View<T> a, View<T> b, Rows rows, Tables<T> tables, Output<T> c);
};
template <class T>
HashKernels<T> rows_of_b();  // 3_rows_of_b.cu

template <class T>
class HashedPlan : public TwoPassPlan<T> {
 public:
  HashedPlan(const SpgemmProblem<T>& problem, Exec& exec, HashKernels<T> kernels, Offset most_in_shared)
      : TwoPassPlan<T>(problem, exec), kernels_(kernels), slots_(global_slots(problem)) {
    if (problem.max_row_products <= most_in_shared) return;
    tables_ = static_cast<unsigned>(std::clamp(kBytes / table_bytes(slots_), 1.0, 1.0 * problem.a->rows));
    keys_ = DeviceArray<Index>(std::size_t{tables_} * slots_);
    values_ = DeviceArray<T>(std::size_t{tables_} * slots_);
  }

  /// `cleared`: slots that each row clears at least to count.
  static Cost cost(const SpgemmProblem<T>& problem, Index cleared, Index most_in_shared) {
    Cost cost = TwoPassPlan<T>::cost(problem);
    cost.work += static_cast<double>(cleared) / kWarp * problem.a->rows;
    if (problem.max_row_products > most_in_shared)
      cost.memory += std::max(kBytes, table_bytes(global_slots(problem)));
    return cost;
  }

 protected:
  /// As many slots, up to `slots`, as a block of this device can have in shared memory.
  static Index slots_that_fit(Index slots) {
    while (static_cast<std::size_t>(slots) * (sizeof(Index) + sizeof(T)) >
           device_facts().shared_per_block_optin)
      slots /= 2;
    return slots;
  }
  /// In tables of so many slots in shared memory.
  void count_in_shared(View<T> a, View<T> b, Rows rows, Index slots, Index* counts) const {
    const auto bytes = static_cast<std::size_t>(slots) * sizeof(Index);
    allow_shared_bytes(kernels_.count, bytes);
    launch(kernels_.count, this->a_warp_a_row(bytes), a, b, rows, Tables<T>{static_cast<unsigned>(slots)},
           counts);
  }
  void multiply_in_shared(View<T> a, View<T> b, Rows rows, Index slots, const Output<T>& c) const {
    const auto bytes = static_cast<std::size_t>(slots) * (sizeof(Index) + sizeof(T));
    allow_shared_bytes(kernels_.multiply, bytes);
    launch(kernels_.multiply, this->a_warp_a_row(bytes), a, b, rows, Tables<T>{static_cast<unsigned>(slots)},
           c);
  }
  /// Rows that are too long for shared memory: in tables that hold any row, in global memory, with as many
  /// blocks as there are tables.
  virtual void count_long(View<T> a, View<T> b, Rows rows, Index* counts) {
    if (tables_ > 0) launch(kernels_.count, a_block_a_table(), a, b, rows, global(), counts);
  }
  virtual void multiply_long(View<T> a, View<T> b, Rows rows, const Output<T>& c) {
    if (tables_ > 0) launch(kernels_.multiply, a_block_a_table(), a, b, rows, global(), c);
  }

 private:
  static constexpr double kBytes = 256.0 * (1U << 20);  ///< of all tables, unless one alone is larger

  /// A power of two that leaves half of them free; at most 2^31, which is more than any row has columns.
  static unsigned global_slots(const SpgemmProblem<T>& problem) {
    const Offset longest = std::min<Offset>(problem.max_row_products, problem.b->cols);
    return std::bit_ceil(static_cast<unsigned>(std::min(2 * longest, Offset{1} << 31)));
  }
  static double table_bytes(unsigned slots) { return 1.0 * slots * (sizeof(Index) + sizeof(T)); }
  LaunchConfig a_block_a_table() const { return {.grid = tables_, .block = kWarp, .stream = this->stream()}; }
  Tables<T> global() { return {slots_, keys_.data(), values_.data()}; }

  HashKernels<T> kernels_;
  unsigned slots_, tables_ = 0;  ///< in global memory
  DeviceArray<Index> keys_;
  DeviceArray<T> values_;
};

/// The plan of rungs 2 and 3: one size of table for all rows but those that may need more than half of it.
template <class T>
class OneTablePlan : public HashedPlan<T> {
 public:
  OneTablePlan(const SpgemmProblem<T>& problem, Exec& exec, HashKernels<T> kernels, Index slots)
      : HashedPlan<T>(problem, exec, kernels, HashedPlan<T>::slots_that_fit(slots) / 2),
        slots_(HashedPlan<T>::slots_that_fit(slots)) {}

  static Cost cost(const SpgemmProblem<T>& problem) {
    return HashedPlan<T>::cost(problem, kOneTableSlots, kOneTableSlots / 2);
  }
  std::vector<Metric> metrics() const override {
    return {{"rows_in_global_memory", this->rows_in(this->counts_, slots_ / 2), ""}};
  }

 private:
  void count(View<T> a, View<T> b, const Index* products, Index* counts) final {
    this->count_in_shared(a, b, {products, 0, slots_ / 2}, slots_, counts);
    this->count_long(a, b, {products, slots_ / 2}, counts);
  }
  void multiply(View<T> a, View<T> b, const Index* results, const Output<T>& c) final {
    this->multiply_in_shared(a, b, {results, 0, slots_ / 2}, slots_, c);
    this->multiply_long(a, b, {results, slots_ / 2}, c);
  }

  Index slots_;
};

}  // namespace stages::spgemm
