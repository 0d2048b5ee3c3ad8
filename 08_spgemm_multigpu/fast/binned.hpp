#pragma once
// binned.cu as a plan in two halves, for entries that repeat only the second (structure_reuse.cu).

#include <memory>

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
  bool count_once = false;     ///< prepare counts, and run() is multiply() alone (structure_reuse.cu)
  double least_trial = 1e-3;   ///< multi_blocks: shorter shares are not dealt again by the clock; 0: always
};

template <class T>
class BinnedPlan : public SpgemmPlan<T> {
 public:
  /// Reads structures only: bins the rows and counts their results.
  virtual void count() = 0;
  /// Reads the loaded values: computes C. After count().
  virtual void multiply() = 0;

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
  /// C's row pointers, rows + 1 of them, if its first entry is entry `first` of a larger matrix; in device
  /// memory, by work on the plan's stream, until the next call. After count().
  virtual const Offset* row_ptr_from(Offset first) = 0;

  /// From now on B's columns and values are those in device memory, nnz(B) of each, and load() takes A's values
  /// alone. Where `col_idx` is null, B keeps its columns.
  virtual void borrow_b(const OnDevice& b) = 0;

  /// In a chain, whose plans have 64-bit row pointers: advance(), with rules for an A of so many non-zeros.
  /// Throws OutOfMemory where C is not on the device.
  virtual void advance_by(Offset results) = 0;
  void advance() override { advance_by(results()); }

  void run() override {
    count();
    multiply();
  }
};

/// Takes A and B to the current device. Throws OutOfDeviceMemory.
template <class T>
std::unique_ptr<BinnedPlan<T>> make_binned(const SpgemmProblem<T>& problem, Exec& exec,
                                           const Settings& settings);

/// The same for a B that is in device memory, whose arrays live longer than the plan; borrow_b() may name other
/// ones. `products`: of A and B, at least about so many.
template <class T, class Ptr>
std::unique_ptr<BinnedPlan<T>> make_binned(const Csr<T>& a, const CsrView<T, Ptr>& b, Offset products,
                                           Exec& exec, const Settings& settings);

template <class T>
Cost binned_cost(const SpgemmProblem<T>& problem);
/// What of its memory is for B, in bytes.
template <class T>
double binned_bytes_of_b(const SpgemmProblem<T>& problem);

/// Its plans as those of an entry.
Factory binned_plans(const Settings& settings);

}  // namespace stages::spgemm
