#pragma once
// Which form computes a row of C: a stated rule of its products, its results and the range of its columns,
// the same on the host and on the device.

#include "common/gpu/backend.hpp"
#include "common/matrix/types.hpp"

namespace stages::spgemm {

/// In the order of launches: what takes longest first. Counting (symbolic) and multiplying (numeric) use the
/// same names.
enum class Form : unsigned char {
  windows,       ///< windows_rows.cu: a bitmap; numeric: dense windows of columns
  large_table,   ///< table_rows.cu: a block, the largest table that a block's shared memory holds
  block_table,   ///< table_rows.cu: a block with one table
  copy_long,     ///< copied_rows.cu: one row of B, scaled; a block
  narrow_large,  ///< narrow_rows.cu: a warp, a bitmap of the row's range of columns
  warp_table,    ///< table_rows.cu: a warp with a table of its own
  narrow_small,  ///< narrow_rows.cu, a smaller range
  warp_small,    ///< table_rows.cu, a smaller table
  sort_256,      ///< sorted_rows.cu: all products sorted in registers: a warp, eight for each lane
  sort_128,
  sort_64,
  sort_32,     ///< half a warp
  sort_16,     ///< eight lanes
  copy_short,  ///< copied_rows.cu: eight lanes
  none,        ///< no product at all
};
inline constexpr int kForms = static_cast<int>(Form::none) + 1;

/// Where the forms end. All are limits of shared memory but the first: what lies beyond is another form's.
/// Smaller ones are for tests, which want every form on small matrices.
struct Rules {
  Index most_sorted = 256;               ///< products; 256, 128, 64, 32, 16 or 0
  Index most_copied_short = 64;          ///< products
  Index narrow_columns = 49152;          ///< the range of a row; a multiple of 32
  Index narrow_small_columns = 16384;    ///< likewise
  Index narrow_results = 1024;           ///< at most 65535
  Index narrow_small_results = 512;      ///< likewise
  Index warp_small_slots = 256;          ///< of the tables; half of them hold results
  Index warp_slots = 1024;
  Index block_slots = 4096;
  Index large_slots = 16384;
  Index count_warp_slots = 2048;         ///< of the tables of the counting pass; half of them hold products
  Index count_block_slots = 16384;
  Index window_columns = 1024;           ///< of one warp's dense window; a multiple of 32
  Index bitmap_columns = 1536 * 1024;    ///< of the counting pass's bitmap; a multiple of 32
};

/// Warps of a block with windows, and with them the columns of one pass.
inline constexpr Index kWindowWarps = 16;

/// What the rule looks at. `width`: last column - first column + 1 of the rows of B that are added up; not
/// known (0) where the products are few.
struct RowFacts {
  Offset products = 0;
  Index rows_of_b = 0;  ///< that are not empty
  Index width = 0;
};

/// What is decided before anything is known of results; none where the rule needs the width.
STAGES_HD inline Form form_by_products(const Rules& rules, Offset products, Index rows_of_b) {
  if (rows_of_b <= 1) {
    if (products == 0) return Form::none;
    return products <= rules.most_copied_short ? Form::copy_short : Form::copy_long;
  }
  if (products > rules.most_sorted) return Form::windows;
  if (products > 128) return Form::sort_256;
  if (products > 64) return Form::sort_128;
  if (products > 32) return Form::sort_64;
  return products > 16 ? Form::sort_32 : Form::sort_16;
}

/// The form that counts the results of a row. A bitmap over the range of columns costs a step for each 32 of
/// them, a hash table one or two for each product.
STAGES_HD inline Form counting_form(const Rules& rules, const RowFacts& row) {
  const Form early = form_by_products(rules, row.products, row.rows_of_b);
  if (early != Form::windows) return early;
  const bool dense = row.width / 32 <= row.products;
  if (dense && row.width <= rules.narrow_columns) return Form::narrow_large;
  if (row.products <= rules.count_warp_slots / 2) return Form::warp_table;
  if (!dense && row.products <= rules.count_block_slots / 2) return Form::block_table;
  return Form::windows;
}

/// The form that computes a row of which the counting pass took `counted` and found `results`.
STAGES_HD inline Form multiplying_form(const Rules& rules, Form counted, Offset products, Index width,
                                       Index results) {
  if (counted >= Form::sort_256 || counted == Form::copy_long) return counted;
  if (width / 64 <= products) {
    if (width <= rules.narrow_small_columns && results <= rules.narrow_small_results)
      return Form::narrow_small;
    if (width <= rules.narrow_columns && results <= rules.narrow_results) return Form::narrow_large;
  }
  if (results <= rules.warp_small_slots / 2) return Form::warp_small;
  if (results <= rules.warp_slots / 2) return Form::warp_table;
  if (width / 2 <= kWindowWarps * rules.window_columns) return Form::windows;  // two passes at most
  if (results <= rules.block_slots / 2) return Form::block_table;
  return results <= rules.large_slots / 2 ? Form::large_table : Form::windows;
}

}  // namespace stages::spgemm
