#pragma once
// Defaults of `whole_rows` for what a RowForm leaves open:
//
//   order      by length, but rows of groups with more than a quarter of `nonzeros`, and more than 8, come
//              before those of warps; as they lie if there are many non-zeros (with more than a line of B
//              6,000 for each SM), near rows ask for the same rows of B, the mean row has fewer than 128
//              non-zeros, and rows are even
//   nonzeros   by length: as many as a group would get if all of them shared the product evenly (a whole
//              number, then up to a power of two), from 16 to 128; twice as many, up to 128, if rows are even
//              and none is longer than that
//   of_warp    as many as the groups of a warp together, or twice as many where rows are even
//   lanes      where B has more than a line: 16 if rows are even; else 8, so that there are more groups
//
// (Many, even: granularity.hpp.) Fitted on the matrices of tools/sets/spmm-fitted.txt and on generated ones of
// up to 6 million non-zeros that are in no list, on an H100.

#include "07_spmm/fast/granularity.hpp"
#include "07_spmm/stage.hpp"

namespace stages::spmm {

/// Whether rows come as they lie; `bytes`: of a row of B.
bool stay_in_order(const SpmmShape& shape, Offset bytes);

/// `given` with what is left open filled in by the rules above. Throws Error if there is no such form.
template <class T>
RowForm resolve_rows(RowForm given, const SpmmShape& shape);

}  // namespace stages::spmm
