#pragma once
// SpMV with one planted fault. FaultySpmv with SpmvFault::none is right; each other fault is a mistake that a
// kernel of this project could hold, at the place where it would stand.

#include <stdexcept>

#include "common/harness/plan.hpp"
#include "common/harness/registry.hpp"
#include "common/matrix/convert.hpp"

namespace stages::mutants {

enum class SpmvFault {
  none,
  failed_library_call,   ///< D2 (a): nothing is multiplied, and nobody reads the error that says so
  stale_answer,          ///< the first result again, whatever was loaded
  lost_product,          ///< of a sum of 100,000 or more products, one is left out
  missing_tail,          ///< D1 (d): rows beyond the last full tile of 16 are never computed
  wrong_last_row,        ///< the last row misses its last entry
  empty_rows_unwritten,  ///< y is written only where a row has entries
  never_zeroed,          ///< sums go on from where the run before left them
  transposed,            ///< A^T x, for square A
  off_by_one_at_32,      ///< a row of exactly 32 entries loses one
  overflowing_row_ptr,   ///< row pointers wrap: 8 bits here, as 32 bits do at 2^31 entries
  narrow_columns,        ///< columns wrap at 16 bits
  order_by_run,          ///< the third run sums in another order
  order_by_parity,       ///< every second run without a load sums in another order
  consumes_operand,      ///< x is gone after the first run
  single_precision,      ///< sums in float, for double as well
  same_vector,           ///< a stream multiplies the first vector again and again
  throws,                ///< an exception that is not an Error
};

/// y = A x row by row. In a chain and in a stream as HostSpmvPlan orders them.
template <class T>
class FaultySpmv : public HostSpmvPlan<T> {
 public:
  FaultySpmv(const SpmvProblem<T>& problem, Exec& /*exec*/, SpmvFault fault)
      : HostSpmvPlan<T>(problem),
        problem_(problem),
        fault_(fault),
        a_(fault == SpmvFault::transposed && problem.a->rows == problem.a->cols ? transpose(*problem.a)
                                                                                : *problem.a),
        kept_(static_cast<std::size_t>(problem.a->rows), T{0}) {}

  void load(const SpmvOperands<T>& operands) override {
    loaded_ = &operands;
    runs_since_load_ = 0;
    HostSpmvPlan<T>::load(operands);
  }
  void run() override {
    ++runs_;
    ++runs_since_load_;
    if (fault_ == SpmvFault::failed_library_call) return;
    if (fault_ == SpmvFault::throws) throw std::runtime_error("the device is gone");
    if (fault_ == SpmvFault::consumes_operand && runs_since_load_ == 1) {
      x_ = *loaded_;
      HostSpmvPlan<T>::load(x_);
    }
    HostSpmvPlan<T>::run();
    if (fault_ == SpmvFault::consumes_operand) std::fill(x_.x.data.begin(), x_.x.data.end(), T{0});
  }
  Dense<T> fetch() override {
    if (fault_ != SpmvFault::stale_answer) return HostSpmvPlan<T>::fetch();
    if (runs_ == 1) first_ = HostSpmvPlan<T>::fetch();
    return first_;
  }

 private:
  bool reversed() const {
    return (fault_ == SpmvFault::order_by_run && runs_ == 3) ||
           (fault_ == SpmvFault::order_by_parity && runs_since_load_ % 2 == 0);
  }

  Offset pointer(Index i) const {
    const Offset at = a_.row_ptr[static_cast<std::size_t>(i)];
    return fault_ == SpmvFault::overflowing_row_ptr ? static_cast<std::uint8_t>(at) : at;
  }

  void product(const T* x, T* y) override {
    const Csr<T>& a = a_;
    if (fault_ == SpmvFault::same_vector && problem_.mode == Mode::stream) x = loaded_->x.data.data();
    const Index rows = fault_ == SpmvFault::missing_tail ? a.rows / 16 * 16 : a.rows;
    for (Index i = 0; i < rows; ++i) {
      if (fault_ == SpmvFault::empty_rows_unwritten && a.row_nnz(i) == 0) continue;
      T& kept = kept_[static_cast<std::size_t>(i)];
      y[i] = row(i, x) + (fault_ == SpmvFault::never_zeroed ? kept : T{0});
      kept = y[i];
    }
  }

  T row(Index i, const T* x) const {
    const Csr<T>& a = a_;
    const Offset begin = pointer(i);
    Offset end = pointer(i + 1);
    const Offset n = end - begin;
    if (fault_ == SpmvFault::off_by_one_at_32 && n == 32) --end;
    if (fault_ == SpmvFault::wrong_last_row && i == a.rows - 1 && n > 0) --end;
    const Offset special = n >= 100'000 ? begin + n / 2 : -1;
    T sum = 0;
    for (Offset k = begin; k < end; ++k) {
      const Offset at = reversed() ? end - 1 - (k - begin) : k;
      const Index column = a.col_idx[static_cast<std::size_t>(at)];
      const T x_value = x[fault_ == SpmvFault::narrow_columns ? static_cast<std::uint16_t>(column) : column];
      T term = a.values[static_cast<std::size_t>(at)] * x_value;
      if (fault_ == SpmvFault::lost_product && at == special) term = 0;
      sum += term;
      if (fault_ == SpmvFault::single_precision) sum = static_cast<T>(static_cast<float>(sum));
    }
    return sum;
  }

  SpmvProblem<T> problem_;
  SpmvFault fault_;
  Csr<T> a_;
  const SpmvOperands<T>* loaded_ = nullptr;
  SpmvOperands<T> x_;  // the operands that are consumed
  Buffer<T> kept_;
  Dense<T> first_;
  int runs_ = 0, runs_since_load_ = 0;
};

}  // namespace stages::mutants
