#pragma once
// What every way to compute a product has to read from device memory and to write there, in run().

#include "common/harness/problem.hpp"
#include "common/judge/demands.hpp"

namespace stages::judge {

/// Read: each value of A that is not 0, and the elements of the other operand that meet one. Written: each
/// element of the result that is a sum of products. (What else lies there may have been filled by cudaMemset,
/// and the structure of A may stand in the kernel.) Each once, though there be several products.
template <class T>
LeastBytes least_bytes(const SpmvProblem<T>& p, const SpmvOperands<T>& operands, const Dense<T>& result);
template <class T>
LeastBytes least_bytes(const SpmmProblem<T>& p, const SpmmOperands<T>& operands, const Dense<T>& result);
template <class T>
LeastBytes least_bytes(const SpgemmProblem<T>& p, const SpgemmOperands<T>& operands, const Csr<T>& result);

}  // namespace stages::judge
