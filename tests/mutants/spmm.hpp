#pragma once
// SpMM with one planted fault: SpmmFault::none is right.

#include <algorithm>
#include <cmath>

#include "common/harness/plan.hpp"
#include "common/harness/registry.hpp"

namespace stages::mutants {

enum class SpmmFault {
  none,
  alpha_ignored,
  beta_ignored,
  keeps_first_c0,       ///< beta C is that of the first load, whatever is loaded later
  zero_times_infinity,  ///< as zero_times_old, but for NaN, which counts as 0
  zero_times_old,       ///< beta C is computed even for beta = 0, where C holds what was there before
  missing_column_tail,  ///< only full tiles of 8 columns are computed
  writes_padding,       ///< lines of C are zeroed in their whole leading dimension
  scales_padding,       ///< lines of C are scaled in their whole leading dimension
  copies_padding,       ///< the product runs over the whole leading dimension, from padding into padding
  reads_padding,        ///< B is read as if it had none
  wrong_layout,         ///< B is read as row-major, whatever it is
};

/// C = alpha A B + beta C, an element at a time.
template <class T>
class FaultySpmm : public HostSpmmPlan<T> {
 public:
  FaultySpmm(const SpmmProblem<T>& problem, Exec& /*exec*/, SpmmFault fault)
      : HostSpmmPlan<T>(problem), fault_(fault) {}

  void load(const SpmmOperands<T>& operands) override {
    if (first_c0_.data.empty()) first_c0_ = operands.c0;
    HostSpmmPlan<T>::load(operands);
  }
  void reset() override {
    HostSpmmPlan<T>::reset();
    if (fault_ == SpmmFault::keeps_first_c0 && !first_c0_.data.empty())
      std::ranges::copy(first_c0_.data, this->c().data);
  }
  void run() override {
    const auto c = this->c();
    if (c.data == nullptr || c.rows == 0) return;
    touch_padding();
    const T beta = fault_ == SpmmFault::beta_ignored ? T{0} : this->problem().beta;
    const T alpha = fault_ == SpmmFault::alpha_ignored ? T{1} : this->problem().alpha;
    const Index cols = fault_ == SpmmFault::missing_column_tail ? c.cols / 8 * 8 : c.cols;
    for (Index i = 0; i < c.rows; ++i) {
      for (Index j = 0; j < cols; ++j) {
        const bool reads_old = beta != T{0} || fault_ == SpmmFault::zero_times_old ||
                               (fault_ == SpmmFault::zero_times_infinity && !std::isnan(c(i, j)));
        c(i, j) = alpha * dot(i, j) + (reads_old ? beta * c(i, j) : T{0});
      }
    }
  }

 private:
  T b_element(Index k, Index j) const {
    auto b = this->b();
    if (fault_ == SpmmFault::reads_padding) b.ld = b.layout == Layout::row_major ? b.cols : b.rows;
    if (fault_ == SpmmFault::wrong_layout) {
      b.layout = Layout::row_major;
      b.ld = b.cols;
    }
    return b(k, j);
  }

  T dot(Index i, Index j) const {
    const auto columns = row_columns(this->a(), i);
    const auto values = row_values(this->a(), i);
    T sum = 0;
    for (std::size_t k = 0; k < columns.size(); ++k) sum += values[k] * b_element(columns[k], j);
    return sum;
  }

  void touch_padding() {
    const auto c = this->c();
    const auto b = this->b();
    const bool row_major = c.layout == Layout::row_major;
    const Offset lines = row_major ? c.rows : c.cols;
    const T beta = this->problem().beta;
    for (Offset line = 0; line < lines; ++line) {
      for (Offset k = row_major ? c.cols : c.rows; k < c.ld; ++k) {
        T& element = c.data[line * c.ld + k];
        if (fault_ == SpmmFault::writes_padding) element = 0;
        if (fault_ == SpmmFault::scales_padding) element *= beta;
        if (fault_ == SpmmFault::copies_padding && b.layout == c.layout && row_major && k < b.ld &&
            b.rows > 0)
          element = b.data[k];
      }
    }
  }

  SpmmFault fault_;
  Dense<T> first_c0_;
};

}  // namespace stages::mutants
