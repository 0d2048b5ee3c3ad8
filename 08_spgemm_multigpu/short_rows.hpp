#pragma once
// The kernels of 5_sorted_rows.cu, for the rungs after it.

#include "08_spgemm_multigpu/rows.hpp"

namespace stages::spgemm {

inline constexpr Index kMostShort = 128;  ///< products of a row that these take

void count_short_rows(const Structures<Offset>& f, RowList list, Index* counts, cudaStream_t stream);
/// Columns come out ascending.
template <class T>
void multiply_short_rows(const Factors<T, Offset>& f, RowList list, const Output<T>& c, cudaStream_t stream);

}  // namespace stages::spgemm
