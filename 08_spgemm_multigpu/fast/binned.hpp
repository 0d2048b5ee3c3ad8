#pragma once
// SpGEMM with rows in bins (binned.cu) as a plan in two halves, for entries that repeat only the second
// (structure_reuse.cu), and for products that are a part of another.

#include <algorithm>
#include <memory>
#include <utility>

#include "08_spgemm_multigpu/fast/rules.hpp"
#include "common/harness/exec.hpp"
#include "common/harness/plan.hpp"
#include "common/harness/registry.hpp"

namespace stages::spgemm {

/// What tests want otherwise.
struct Settings {
  Rules rules = {};
  double result_bytes = 0;     ///< C beyond this many bytes is made in batches; 0: beyond what is free
  bool wide_pointers = false;  ///< 64-bit row pointers on the device, also where 32 bits would do
  Offset products = 0;         ///< that the rules go by; 0: the problem's
  double least_trial = 1e-3;   ///< multi_blocks: shorter shares are not dealt again by the clock; 0: always
};

template <class T>
class HalvesPlan : public SpgemmPlan<T> {
 public:
  /// Reads structures only: bins the rows and counts their results.
  virtual void count() = 0;
  /// Reads the loaded values: computes C. After count().
  virtual void multiply() = 0;

  /// Counts now, so that run() is multiply() alone.
  void count_once() {
    count();
    is_counted_ = true;
  }
  void run() override {
    if (!is_counted_) count();
    multiply();
  }

 protected:
  bool is_counted_ = false;
};

template <class T>
class BinnedPlan : public HalvesPlan<T> {
 public:
  /// nnz(C). After count().
  virtual Offset results() const = 0;
  /// C's columns and values to the caller's arrays on the host, results() of each. Then these are complete,
  /// and so is all work before on the plan's stream. After multiply().
  virtual void copy_to_host(Index* col_idx, T* values) = 0;

  /// C where multiply() left it, in device memory; null where it did not fit and is on the host.
  struct OnDevice {
    const Index* col_idx = nullptr;
    const T* values = nullptr;
  };
  virtual OnDevice on_device() const = 0;
  /// C's row pointers, rows + 1 of them, if its first non-zero is non-zero `first` of a larger matrix; in
  /// device memory, by work on the plan's stream, until the next call. After count().
  virtual const Offset* row_ptr_from(Offset first) = 0;

  /// Of a B that is borrowed: from now on its columns and values are those in device memory.
  virtual void borrow_b(const OnDevice& b) = 0;

  /// In a chain, whose plans have 64-bit row pointers: advance(), with rules for an A of so many non-zeros.
  /// Throws OutOfMemory where C is not on the device.
  virtual void advance_by(Offset results) = 0;
  void advance() override { advance_by(results()); }
};

/// Takes A and B to the current device. Throws OutOfDeviceMemory.
template <class T>
std::unique_ptr<BinnedPlan<T>> make_binned(const SpgemmProblem<T>& problem, Exec& exec,
                                           const Settings& settings);

/// The same for a B that is in device memory, whose arrays live longer than the plan; borrow_b() may name other
/// ones. `products`: of A and B, at least about so many. No row is split.
template <class T, class Ptr>
std::unique_ptr<BinnedPlan<T>> make_binned(const Csr<T>& a, const CsrView<T, Ptr>& b, Offset products,
                                           Exec& exec, const Settings& settings);

/// What a plan is made by beside the arrays. settings.products, if any, count for the problem's.
struct ProductFacts {
  Offset products = 0;
  bool wide_pointers = false, has_words = false;
};
template <class T>
ProductFacts facts_of(const SpgemmProblem<T>& problem, const Settings& settings);

/// Of row pointers on the host, of which the first need not be 0, and columns and B's values in device memory,
/// where they live longer than the plan. load() brings A's values, which are 0 before. No row is split.
template <class T>
std::unique_ptr<BinnedPlan<T>> make_binned(const CsrView<T>& a, const CsrView<T>& b,
                                           const ProductFacts& facts, Exec& exec, const Settings& settings);

/// Whether row pointers of 32 bits do not do. The kernels' positions in A and B run beyond the end of a row: by
/// four blocks' threads, by the products of 32 non-zeros of A where they are exchanged (ranked_rows.cu), by the
/// non-zeros that a block's warps look at ahead (rows.hpp), and in searches in B as far as the row is long.
template <class T>
bool has_wide_pointers(const SpgemmProblem<T>& problem, const Settings& settings) {
  const Offset beyond = std::max<Offset>(16384, problem.b->longest_row());
  return settings.wide_pointers ||
         !std::in_range<std::int32_t>(std::max(problem.a->nnz(), problem.b->nnz()) + beyond);
}

template <class T>
Cost binned_cost(const SpgemmProblem<T>& problem);
/// What of its memory is for B, in bytes.
template <class T>
double binned_bytes_of_b(const SpgemmProblem<T>& problem);

/// What an entry offers: a recorded product where it is small, else one that waits. `count_once`: prepare
/// counts.
Factory binned_plans(const Settings& settings, bool count_once = false);

}  // namespace stages::spgemm
