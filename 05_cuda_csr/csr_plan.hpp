#pragma once
// What the rungs on CSR have in common: the matrix on the device, its cost, and the row pointers' type. Each
// rung adds its kernel and its launch.

#include <algorithm>
#include <bit>
#include <limits>

#include "common/gpu/frames.hpp"

namespace stages {

/// Row pointers of the rungs: 32 bits in all of them. `balanced` takes 64 where it must.
using LessonPtr = std::int32_t;
/// So that a loop can go a step beyond the last one.
inline constexpr LessonPtr kMostNonZeros = std::numeric_limits<LessonPtr>::max() - 256;

/// The largest power of two not above the mean row length, but at least 2 and at most 32.
template <class T>
unsigned lanes_for_mean_row(const Csr<T>& a) {
  const Offset mean = a.rows == 0 ? 0 : a.nnz() / a.rows;
  return static_cast<unsigned>(std::bit_floor(static_cast<std::uint64_t>(std::clamp<Offset>(mean, 2, 32))));
}

template <class T>
class CsrSpmvPlan : public CsrFrame<T> {
 public:
  using CsrFrame<T>::CsrFrame;

  static Cost cost(const SpmvProblem<T>& problem) {
    return problem_cost(problem).plus_memory(device_csr_bytes(*problem.a));
  }
  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec&) {
    if (problem.a->nnz() <= kMostNonZeros) return std::nullopt;
    return fmt::format("has {} non-zeros, and this lesson's row pointers of 32 bits count {}; see balanced",
                       problem.a->nnz(), kMostNonZeros);
  }
};

}  // namespace stages
