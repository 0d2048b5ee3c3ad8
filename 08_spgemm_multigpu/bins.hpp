#pragma once
// The plans of rungs 4 and 5. SortedRowsPlan does short rows of BinsPlan otherwise, rung 6 long rows of both.

#include "08_spgemm_multigpu/hashed.hpp"

namespace stages::spgemm {

/// Rows in bins by their size, each with tables of its own size; 4_bins.cu has count() and multiply().
template <class T>
class BinsPlan : public HashedPlan<T> {
 public:
  /// `long_hashed`: whether rows that are too long for shared memory have tables in global memory.
  BinsPlan(const SpgemmProblem<T>& problem, Exec& exec, const BinSlots& slots, bool long_hashed = true)
      : HashedPlan<T>(
            problem, exec, rows_of_b<T>(),
            long_hashed ? HashedPlan<T>::slots_that_fit(slots.back()) / 2 : problem.max_row_products),
        slots_(slots) {
    slots_.back() = HashedPlan<T>::slots_that_fit(slots.back());
  }

  static Cost cost(const SpgemmProblem<T>& problem) {
    return HashedPlan<T>::cost(problem, kBinSlots.front(), kBinSlots.back() / 2);
  }
  std::vector<Metric> metrics() const override {
    return {{"rows_in_bin_0", this->rows_in(this->counts_, 0, slots_[0] / 2), ""},
            {"rows_in_bin_1", this->rows_in(this->counts_, slots_[0] / 2, slots_[1] / 2), ""},
            {"rows_in_bin_2", this->rows_in(this->counts_, slots_[1] / 2, slots_[2] / 2), ""},
            {"rows_in_bin_3", this->rows_in(this->counts_, slots_[2] / 2, slots_[3] / 2), ""},
            {"rows_in_bin_4", this->rows_in(this->counts_, slots_[3] / 2), ""}};
  }

 protected:
  void count(View<T> a, View<T> b, const Index* products, Index* counts) override;
  void multiply(View<T> a, View<T> b, const Index* results, const Output<T>& c) override;
  /// Rows of a bin.
  virtual Rows bin(const Index* sizes, Index more, Index most) const { return {sizes, more, most}; }

  BinSlots slots_;
};

inline constexpr Index kMostSorted = Index{kWarp};  ///< products of a row that is sorted

/// That, but for short rows; 5_sorted_rows.cu has count() and multiply().
template <class T>
class SortedRowsPlan : public BinsPlan<T> {
 public:
  using BinsPlan<T>::BinsPlan;

  std::vector<Metric> metrics() const override {
    return {{"rows_sorted", this->rows_in(this->products_, 0, kMostSorted), ""}};
  }

 protected:
  void count(View<T> a, View<T> b, const Index* products, Index* counts) final;
  void multiply(View<T> a, View<T> b, const Index* results, const Output<T>& c) final;
  Rows bin(const Index* sizes, Index more, Index most) const final {
    return {sizes, more, most, this->products_.data(), kMostSorted};
  }
  Rows unsorted(const Index* counts) override { return bin(counts, 0, Rows{}.most); }
};

}  // namespace stages::spgemm
