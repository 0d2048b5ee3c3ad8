#pragma once
// What `adaptive` chooses by, for those who study it.

#include "common/harness/problem.hpp"

namespace stages::spmm {

/// Whether `adaptive` multiplies by near_dense; if not, by balanced.
template <class T>
bool takes_near_dense(const SpmmProblem<T>& problem);

}  // namespace stages::spmm
