#pragma once
// The plans of rungs 4 and 5, which the rung after each changes at one end.

#include "08_spgemm_multigpu/hashed.hpp"

namespace stages::spgemm {

/// Rows in bins by their size, each with tables of its own size; 4_bins.cu has count() and multiply().
template <class T>
class BinsPlan : public HashedPlan<T> {
 public:
  BinsPlan(const SpgemmProblem<T>& problem, Exec& exec, const BinSlots& slots)
      : BinsPlan(problem, exec, slots, slots.back() / 2) {}

  static Cost cost(const SpgemmProblem<T>& problem) {
    return HashedPlan<T>::cost(problem, kBinSlots.front(), kBinSlots.back() / 2);
  }
  std::vector<Metric> metrics() const override {
    return {{"rows_in_bin_0", this->rows_of_results(0, slots_[0] / 2), ""},
            {"rows_in_bin_1", this->rows_of_results(slots_[0] / 2, slots_[1] / 2), ""},
            {"rows_in_bin_2", this->rows_of_results(slots_[1] / 2, slots_[2] / 2), ""},
            {"rows_in_bin_3", this->rows_of_results(slots_[2] / 2), ""}};
  }

 protected:
  /// `most_hashed`: rows that may have more results have tables in global memory.
  BinsPlan(const SpgemmProblem<T>& problem, Exec& exec, const BinSlots& slots, Offset most_hashed)
      : HashedPlan<T>(problem, exec, rows_of_b<T>(), most_hashed), slots_(slots) {}

  void count(View<T> a, View<T> b, const Index* products, Index* counts) override;
  void multiply(View<T> a, View<T> b, const Index* results, const Output<T>& c) override;

  BinSlots slots_;
};

/// That, but for short rows; 5_sorted_rows.cu has count() and multiply().
template <class T>
class SortedRowsPlan : public BinsPlan<T> {
 public:
  SortedRowsPlan(const SpgemmProblem<T>& problem, Exec& exec, const BinSlots& slots)
      : SortedRowsPlan(problem, exec, slots, slots.back() / 2) {}

  std::vector<Metric> metrics() const override {
    return {{"rows_sorted", this->rows_of_products(0, Index{kWarp}), ""}};
  }

 protected:
  SortedRowsPlan(const SpgemmProblem<T>& problem, Exec& exec, const BinSlots& slots, Offset most_hashed)
      : BinsPlan<T>(problem, exec, slots, most_hashed), hashed_(static_cast<std::size_t>(problem.a->rows)) {}

  void count(View<T> a, View<T> b, const Index* products, Index* counts) final;
  void multiply(View<T> a, View<T> b, const Index* results, const Output<T>& c) final;
  Rows unsorted(const Index*) override { return {hashed_.data()}; }

  DeviceArray<Index> hashed_;  ///< the sizes of the other rows; 0 for those that are sorted
};

}  // namespace stages::spgemm
