#pragma once
// Where the non-zeros of a matrix lie, and how long its rows are, as a picture.

#include <string>

#include "common/matrix/types.hpp"

namespace stages {

/// An SVG of at most 20 kB for light and dark pages: rows first .. last - 1 of `a`, and the columns that they
/// use, in a grid of at most 200 x 200 cells, fewer where the text would be too long; the more a cell holds,
/// the stronger its colour. Beside it, for each line of cells, the longest of its rows and their mean. Rows and
/// columns are counted from 0. Needs 0 <= first <= last <= a.rows. `name`, which is markup, is for the title.
std::string picture(const Csr<double>& a, Index first, Index last, const std::string& name);

}  // namespace stages
