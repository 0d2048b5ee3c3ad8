#pragma once
// Defaults of `whole_rows` for what a RowForm leaves open:
//
//   order      as they lie if near rows ask for the same rows of B, the mean row has fewer than 128 non-zeros,
//              and the longest 1.5 times as many as that at most (4 times where there are many). Else by
//              length
//   nonzeros   as they lie: a group for each row; a warp if there are fewer than 64 for each SM, of 16 or more
//              on average. By length: a third more than a group would get if all of them shared the product
//              evenly, rounded up to a power of two, from 8 to 128
//   lanes      where B has more than a line: 16 if near rows ask for the same rows of B and none is more than
//              four times as long as the mean one; else 8, so that there are more groups
//
// Fitted on the matrices of tools/sets/spmm-fitted.txt and on generated ones of up to 3 million non-zeros that
// are in no list, on an H100.

#include "07_spmm/fast/granularity.hpp"
#include "07_spmm/stage.hpp"

namespace stages::spmm {

/// `given` with what is left open filled in by the rules above. Throws Error if there is no such form.
template <class T>
RowForm resolve_rows(RowForm given, const Shape& shape);

}  // namespace stages::spmm
