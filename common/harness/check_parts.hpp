#pragma once
// What the checks of dense and of sparse results share; for check*.cpp and chain.cpp.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "common/harness/check.hpp"
#include "common/matrix/parallel.hpp"
#include "common/matrix/random.hpp"

namespace stages::checking {

/// Whether two results are alike to the last bit.
template <class T>
bool same_bits(const Buffer<T>& a, const Buffer<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}
template <class T>
bool same_bits(const Dense<T>& a, const Dense<T>& b) {
  return same_bits(a.data, b.data);
}
template <class T>
bool same_bits(const Csr<T>& a, const Csr<T>& b) {
  return same_bits(a.row_ptr, b.row_ptr) && same_bits(a.col_idx, b.col_idx) && same_bits(a.values, b.values);
}

/// The type in which the reference is computed: at least 2^29 times (for double 2^11 times) finer than T.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;

/// What the reference says about one element.
template <class T>
struct Expected {
  Wide<T> value = 0;      ///< sum of the products
  Wide<T> magnitude = 0;  ///< sum of their absolute values
};

/// The first failure that any thread met, and the worst ratio.
class Findings {
 public:
  void fail(Offset row, std::string what) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty() || row < row_) {
      failure_ = std::move(what);
      row_ = row;
    }
  }
  void compared(double worst, Offset sums, Offset not_judged) {
    const std::lock_guard lock(mutex_);
    worst_ = std::max(worst_, worst);
    sums_ += sums;
    not_judged_ += not_judged;
  }
  void write_to(CheckReport& report) const {
    report.worst = worst_;
    report.sums = sums_;
    report.not_judged = not_judged_;
    if (report.failure.empty()) report.failure = failure_;
  }

 private:
  std::mutex mutex_;
  double worst_ = 0;
  Offset sums_ = 0, not_judged_ = 0;
  Offset row_ = 0;
  std::string failure_;
};

/// Whether partial sums may leave T's range, so that any answer is as good. (An infinite magnitude is none of
/// T's sums: it would let everything pass.)
template <class T>
bool out_of_range(Wide<T> magnitude) {
  return std::isfinite(magnitude) && magnitude > static_cast<Wide<T>>(std::numeric_limits<T>::max());
}

/// |got - expected| over the bound of an element with n products; more than 1, or NaN, is wrong. Exact sums
/// have bound 0: the ratio is then 0 or infinite.
template <class T>
double error_ratio(T got, const Expected<T>& expected, Offset n, ValueKind kind) {
  using Limits = std::numeric_limits<T>;
  static_assert(std::numeric_limits<Wide<T>>::digits >= Limits::digits + 11);
  const auto exact_below = std::ldexp(Wide<T>{1}, Limits::digits);
  const Wide<T> error = std::abs(static_cast<Wide<T>>(got) - expected.value);
  if (kind == ValueKind::integer && expected.magnitude < exact_below) {
    if (std::isnan(error)) return Limits::quiet_NaN();
    return error == 0 ? 0 : std::numeric_limits<double>::infinity();
  }
  // An infinite bound would let everything pass.
  if (!std::isfinite(expected.magnitude)) return Limits::quiet_NaN();
  const auto count = static_cast<Wide<T>>(n);
  const Wide<T> bound = 2 * count * static_cast<Wide<T>>(Limits::epsilon()) * expected.magnitude +
                        count * static_cast<Wide<T>>(Limits::denorm_min());
  if (error == 0) return 0;
  return static_cast<double>(error / bound);
}

/// Rows whose elements are compared: all if their products fit the budget, else the first, the last, the
/// longest, and rows drawn at random until the budget is used.
inline Buffer<Index> choose_rows(Index rows, const Buffer<Offset>& row_work, const CheckOptions& options) {
  Buffer<Index> chosen;
  const Offset total = std::accumulate(row_work.begin(), row_work.end(), Offset{0});
  if (total <= options.budget) {
    chosen.resize(static_cast<std::size_t>(rows));
    std::iota(chosen.begin(), chosen.end(), 0);
    return chosen;
  }
  const auto longest =
      static_cast<Index>(std::max_element(row_work.begin(), row_work.end()) - row_work.begin());
  chosen.assign({0, rows - 1, longest});
  const random::Permutation order(static_cast<random::Word>(rows), options.seed);
  Offset work = 0;
  for (Index k = 0; k < rows; ++k) {
    const auto i = static_cast<Index>(order(static_cast<random::Word>(k)));
    work += row_work[static_cast<std::size_t>(i)] + 1;
    if (work > options.budget) break;
    chosen.push_back(i);
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

/// Runs work(first, last) over blocks of the chosen rows, on threads.
template <class Work>
void over_blocks(std::size_t count, std::size_t block, const CheckOptions& options, Work&& work) {
  parallel_blocks(static_cast<Offset>(count), static_cast<Offset>(block), options.threads,
                  [&](int, Offset begin, Offset end) {
                    work(static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
                  });
}

/// Sums of integers modulo 2^64: right ones never leave the range of int64, and wrong ones may without harm.
using Sum = std::uint64_t;

/// A random integer in 1 .. 1024.
inline Sum weight(Index j, std::uint64_t seed) {
  return 1 + random::scale(random::Stream(seed, static_cast<random::Word>(j)).next(), 1024);
}

/// Integer values of T; NaN and other values that cannot be an exact small sum become `none`.
template <class T>
std::optional<Sum> as_integer(T value) {
  if (!(std::abs(value) < T(1LL << 40)) || value != std::trunc(value)) return std::nullopt;
  return static_cast<Sum>(static_cast<std::int64_t>(value));
}

/// The sum as people read it.
inline std::int64_t readable(Sum sum) { return static_cast<std::int64_t>(sum); }

/// Compares an SpMV's or SpMM's result with the reference (check_dense.cpp).
template <class Problem>
CheckReport verify_dense(const Problem& problem, const typename Problem::Operands& operands,
                         const typename Problem::Result& result, ValueKind kind, const CheckOptions& options);

/// Compares an SpGEMM's result with the reference (check_sparse.cpp).
template <class T>
CheckReport verify_sparse(const SpgemmProblem<T>& problem, const SpgemmOperands<T>& operands, const Csr<T>& c,
                          ValueKind kind, const Claims& claims, const CheckOptions& options);

}  // namespace stages::checking
