#pragma once
// The one way in which the CPU kernels add a product to a sum.

#include <cmath>

namespace stages::kernels {

/// a * b + c with one rounding where the processor has that, else with two: the same everywhere in a program,
/// which a compiler's own choice between the two would not be. So two ways through a kernel that add the same
/// terms in the same order give the same bits.
template <class T>
T multiply_add(T a, T b, T c) {
#if defined(__FMA__) || defined(FP_FAST_FMA)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

}  // namespace stages::kernels
