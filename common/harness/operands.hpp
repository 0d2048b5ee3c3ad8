#pragma once
// The values that the harness multiplies: what plans load, and what replaces A's values for a check.
//
// Two kinds. Real values show rounding as a user meets it. Small integers make every product and every sum
// exact (all partial sums stay below 2^24, or 2^53 for double), so that a single lost or repeated product
// shows even in a sum of a million: the bound for real values grows with the number of products, and misses it.

#include <cstdint>

#include "common/harness/problem.hpp"

namespace stages {

enum class ValueKind { real, integer };

/// The problem with the values its checks of this kind need, structure untouched.
///  real: the problem's own values; in a chain each row of A is scaled to sum |a| = 1 and the signs are drawn
///  from `seed`, so that vectors neither grow nor vanish. integer: non-zero integers, small enough for exact
///  sums; in a chain each row keeps a single +1 or -1 among zeros, the choice drawn from `seed`. alpha and
///  beta become integers in -16 .. 16.
template <class Problem>
Problem with_values(const Problem& problem, ValueKind kind, std::uint64_t seed);

/// Operands for `problem`, as with_values made it: the same for the same seed on every machine. Real values
/// lie in [-1, 1) without 0, except that SpGEMM's are 0 where the problem's matrices store zeros. Padding of
/// dense operands is NaN among real values, so that a plan that reads it fails, and a number among integers,
/// so that a plan that copies it into the padding of the result fails too.
template <class Problem>
typename Problem::Operands make_operands(const Problem& problem, ValueKind kind, std::uint64_t seed);

/// Numbers that make_operands draws.
template <class Problem>
double operand_elements(const Problem& problem);

}  // namespace stages
