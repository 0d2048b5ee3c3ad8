#pragma once
// Which form computes a row of C: a stated rule of its products, its results and the range of its columns,
// the same on the host and on the device.

#include <array>

#include "common/gpu/backend.hpp"
#include "common/matrix/types.hpp"

namespace stages::spgemm {

/// In the order of launches: what takes longest first. (From sorted_256 on, and if merged, a row keeps the form
/// that counted.)
/// Counting (symbolic) and multiplying (numeric) use the same names. form_by_products() gives `windows` also
/// where nothing is decided yet.
enum class Form : unsigned char {
  windows,        ///< window_rows.cu: a bitmap; numeric: dense windows of columns, blocks of 16 warps
  ranked_spans,   ///< ranked_rows.cu, numeric only: a span of the columns after the other
  ranked,         ///< ranked_rows.cu, numeric only: a bitmap that knows ranks; blocks of 16 warps
  small_ranked,   ///< the same with less shared memory
  small_windows,  ///< numeric only: one pass of a block of four warps
  large_tables,   ///< table_rows.cu: a block, the largest table that a block's shared memory holds
  block_tables,   ///< table_rows.cu: a block with one table
  merged,         ///< merged_rows.cu: a long row of B, and few products beside it; a block
  narrow_long,    ///< as narrow, numeric only: more results, so fewer warps on an SM
  narrow,         ///< narrow_rows.cu: a warp, a bitmap of the row's range of columns
  warp_tables,    ///< table_rows.cu: a warp with a table of its own
  small_tables,   ///< table_rows.cu, a smaller table
  sorted_256,     ///< sorted_rows.cu: all products sorted in the registers of 16 lanes
  sorted_128,     ///< of eight lanes
  sorted_64,
  sorted_32,
  sorted_16,
  band,        ///< band_rows.cu: four lanes add them up in a window of columns
  threads_32,  ///< thread_rows.cu: a thread sorts them in its registers
  threads_16,
  copied_short,  ///< copied_rows.cu: eight lanes
  empty,         ///< no product at all
};
inline constexpr int kForms = static_cast<int>(Form::empty) + 1;

/// The same names, in the same order, for results.
inline constexpr std::array<const char*, kForms> kFormNames = {
    "windows",      "ranked_spans", "ranked",       "small_ranked", "small_windows", "large_tables",
    "block_tables", "merged",       "narrow_long",  "narrow",       "warp_tables",   "small_tables",
    "sorted_256",   "sorted_128",   "sorted_64",    "sorted_32",    "sorted_16",     "band",
    "threads_32",   "threads_16",   "copied_short", "empty"};

/// Where the forms end. Most are limits of shared memory: what lies beyond is another form's. Smaller ones
/// are for tests, which want every form on small matrices.
struct Rules {
  Index most_by_threads = 32;      ///< products; 32, 16 or 0
  Index thread_rows_a_sm = 1024;   ///< fewer rows with a thread each leave the device idle: lanes sort them
  Index band_products = 4096;      ///< in a range of kBandColumns; 0 where C has few rows (Passes::set_rules)
  Index most_sorted = 256;         ///< products; 256, 128, 64, 32, 16 or 0
  Index most_sorted_narrow = 128;  ///< in a range of no more columns than products: bitmaps take the others
  Index most_copied_short = 64;    ///< products
  Index long_share = 2;            ///< a long row of B has so many times the products beside it
  Index count_narrow_columns = 49152;   ///< the range of a row, counting; a multiple of 32
  Index narrow_columns = 16384;         ///< likewise, multiplying
  Index narrow_results = 512;           ///< likewise; at most 65535
  Index narrow_long_results = 1024;     ///< likewise, in narrow_long
  Index narrow_columns_a_product = 32;  ///< multiplying: a wider range is not worth its bitmap
  Index warp_small_slots = 256;         ///< of the tables; half of them hold results
  Index warp_slots = 1024;              ///< at most: a warp sorts 512 results in its registers
  Index block_slots = 4096;
  Index large_slots = 16384;
  Index block_warps = 8;                ///< of the block with such a table; at most 16
  Index large_warps = 16;               ///< likewise
  Index count_columns_a_product = 128;  ///< counting: a wider range is not worth its bitmap
  Index count_warp_slots = 2048;        ///< of the tables of the counting pass; half of them hold products
  Index count_block_slots = 16384;
  Index warp_products = 16384;      ///< of a row in a narrow range: more are a block's work, not a warp's
  Index warp_rows_of_b = 256;       ///< likewise
  Index ranked_bytes = 106 * 1024;  ///< of a block's bits and sums: two blocks share an SM
  Index ranked_small_bytes = 36 * 1024;  ///< what is left of an SM's memory is L1, which rows of B come from
  Index value_bytes = sizeof(float);     ///< set by fitted_to_memory()
  Index exchanged_entries = 256;         ///< of A: ranked rows with more exchange products (ranked_rows.cu)
  Index exchanged_products = 16;         ///< if no more come of a non-zero, in the mean
  Index window_columns = 1536;           ///< of one warp's dense window of floats; a multiple of 32
  Index window_small_columns = 2048;     ///< likewise, in blocks of four warps
  Index window_columns_a_result = 64;  ///< a wider range is not worth its windows while a table holds the row
  Index span_blocks_a_row = 8;         ///< deal out the spans of a row
  Index span_blocks = 65536;           ///< in all; where rows are few and huge, each gets more of them
  Index span_blocks_an_sm = 2;         ///< where bitmaps count few rows: so many spans, if need be narrow
  Index span_columns_a_result = 2;     ///< huge rows: a narrower range is not worth ranks
  Index bitmap_columns = 1536 * 1024;  ///< of the counting pass's bitmap; a multiple of 32
  Index long_dense_row = 1024;         ///< non-zeros of A: longer rows of few columns (dense_rows.hpp)
  Index long_row = 16384;              ///< non-zeros of A: rows with more may be split (split_rows.cu)
  Index long_row_products = 32;        ///< of a non-zero of such rows, in the mean: with more no row is split
  Index most_long_rows = 256;          ///< more of them keep the device busy without
  Index section_entries = 64;          ///< of A, in a section of a row
  Index recorded_rows_a_sm = 1024;     ///< of C: a product with no more is recorded as a graph (recorded.hpp)
  Index recorded_results = 1 << 22;    ///< if C can have no more results
  Index recorded_blocks_a_sm = 32;     ///< of a form with a block a row, where it is not known how many rows
  Index entries_a_word = 2;            ///< of B, or more in the mean: bitmaps count by words (words.hpp)
  Offset word_products = 1 << 20;      ///< and there are so many products
  Offset products_a_word_entry = 4;    ///< and so many for each non-zero of B
  Index most_word_row = 4096;          ///< the longest row of B: a warp makes a row's words
  Index count_blocks_a_row = 1;  ///< of the counting pass's bitmaps, at most: each searches all rows of B
};

/// The range of a row whose columns are bits of a word, and the lanes that take it.
inline constexpr Index kBandColumns = 64, kBandLanes = 4;

/// Products beside a long row of B that is merged with them, a thread each.
inline constexpr Index kMostBeside = 256;

/// Warps of a block with windows, and with them the columns of one pass.
inline constexpr Index kWindowWarps = 16;
inline constexpr Index kSmallWindowWarps = 4;

/// Warps of a block of ranked_rows.cu.
inline constexpr Index kRankedWarps = 16;

/// Bytes of a word of a set that knows ranks (ranks.hpp): 32 bits, and the number of those before them.
inline constexpr Index kRankWordBytes = 4 + 2;

/// Results of a row in ranked_rows.cu, whose ranks have 16 bits.
inline constexpr Index kMostRanks = 65535;

/// Rows that a large bitmap counted are multiplied in so many parts at most, a block each.
inline constexpr Index kMostParts = 64;

/// The columns of a part: whole passes, as few as kMostParts allow.
STAGES_HD inline Index part_columns(const Rules& rules, Index cols) {
  const Offset pass = Offset{kWindowWarps} * rules.window_columns;
  const Offset passes = (cols + pass - 1) / pass;
  const Offset columns = (passes + kMostParts - 1) / kMostParts * pass;
  return static_cast<Index>(columns < cols ? columns : Offset{cols});
}

/// How many parts of that many columns there are.
STAGES_HD inline Index parts_of(Index cols, Index columns) {
  return columns > 0 ? static_cast<Index>((Offset{cols} + columns - 1) / columns) : 0;
}

/// What ranked_rows.cu needs of shared memory for a row in a range of `width` columns: a bit a column and two
/// bytes a word of bits (ranks.hpp), and so many sums: its results, or those of each warp.
STAGES_HD inline Offset ranked_bytes(Index width, Offset sums, Index value_bytes) {
  return sums * value_bytes + (Offset{width} + 31) / 32 * kRankWordBytes;
}

/// Whether the warps of a ranked row, or span, exchange products: where its non-zeros of A are many, and name
/// short rows of B, each warp would search for nearly nothing.
STAGES_HD inline bool are_exchanged(const Rules& rules, Offset entries, Offset products) {
  return entries > rules.exchanged_entries && products <= rules.exchanged_products * entries;
}

/// What the rule looks at. `width`: last column - first column + 1 of the rows of B that are added up; it may
/// be unknown (0) where the products are few, unless the range is narrow, and A's row for that of a band.
struct RowFacts {
  Offset products = 0;
  Index rows_of_b = 0;  ///< that are not empty
  Index width = 0;
  Index longest = 0;  ///< of those rows
};

/// The form that rows of `form` get when there are `rows` of them, on a device with `sms` multiprocessors.
STAGES_HD inline Form form_for_so_many(const Rules& rules, Form form, Index rows, int sms) {
  const Offset threads = Offset{rows} * (form == Form::band ? kBandLanes : 1);
  if (threads >= Offset{rules.thread_rows_a_sm} * sms) return form;
  if (form == Form::band) return Form::narrow;
  return form == Form::threads_32 ? Form::sorted_32 : form == Form::threads_16 ? Form::sorted_16 : form;
}

/// What is decided before anything is known of results. `windows` is no form here: it says that the rule
/// needs the width, and counting_form() then decides.
STAGES_HD inline Form form_by_products(const Rules& rules, const RowFacts& row) {
  const Offset products = row.products, beside = products - row.longest;
  if (products == 0) return Form::empty;
  if (row.rows_of_b == 1 && products <= rules.most_copied_short) return Form::copied_short;
  const bool is_long = products > rules.most_sorted && products > rules.most_by_threads;
  if ((row.rows_of_b == 1 || is_long) && beside <= kMostBeside && beside * rules.long_share <= row.longest)
    return Form::merged;
  if (products <= rules.most_by_threads) return products > 16 ? Form::threads_32 : Form::threads_16;
  if (products > rules.most_sorted) return Form::windows;
  if (products > 128) return Form::sorted_256;
  if (products > 64) return Form::sorted_128;
  if (products > 32) return Form::sorted_64;
  return products > 16 ? Form::sorted_32 : Form::sorted_16;
}

/// Whether a row that could be sorted has another form if its range has no more columns than it has products.
STAGES_HD inline bool may_be_narrow(const Rules& rules, const RowFacts& row) {
  return row.rows_of_b > 1 && row.products > rules.most_sorted_narrow && row.products <= rules.most_sorted;
}

/// Whether four lanes may take a row if its range is short.
STAGES_HD inline bool may_be_band(const Rules& rules, const RowFacts& row) {
  return row.rows_of_b > 1 && row.products > rules.most_by_threads && row.products <= rules.band_products;
}

/// Whether they do: its bits and sums fit, also those of `narrow`, which takes few such rows.
STAGES_HD inline bool is_band(const Rules& rules, const RowFacts& row) {
  return may_be_band(rules, row) && row.width > 0 && row.width <= kBandColumns &&
         row.width <= rules.count_narrow_columns && row.width <= rules.narrow_columns &&
         row.width <= rules.narrow_results;
}

/// The form that counts the results of a row. A bitmap over the range of columns costs a step for each 32 of
/// them, a hash table one or two for each product.
STAGES_HD inline Form counting_form(const Rules& rules, const RowFacts& row) {
  if (is_band(rules, row)) return Form::band;
  const Form early = form_by_products(rules, row);
  const bool one_warp = row.products <= rules.warp_products && row.rows_of_b <= rules.warp_rows_of_b;
  const bool narrow = one_warp && row.width <= rules.count_narrow_columns;
  if (narrow && may_be_narrow(rules, row) && row.width > 0 && row.width <= row.products) return Form::narrow;
  if (early != Form::windows) return early;
  const bool dense = row.width / rules.count_columns_a_product <= row.products;
  if (dense && narrow) return Form::narrow;
  if (row.products <= rules.count_warp_slots / 2) return Form::warp_tables;
  if (!dense && row.products <= rules.count_block_slots / 2) return Form::block_tables;
  return Form::windows;
}

/// The form that computes a row of which the counting pass took `counted` and found `results`; `has_spans`:
/// it has also cut the row into spans whose ranks and sums fit.
STAGES_HD inline Form multiplying_form(const Rules& rules, Form counted, Offset products, Index width,
                                       Index results, bool has_spans) {
  if (counted >= Form::sorted_256 || counted == Form::merged) return counted;
  const bool one_warp = counted != Form::windows;
  if (one_warp && width / rules.narrow_columns_a_product <= products && width <= rules.narrow_columns) {
    if (results <= rules.narrow_results) return Form::narrow;
    if (results <= rules.narrow_long_results) return Form::narrow_long;
  }
  if (one_warp && results <= rules.warp_small_slots / 2) return Form::small_tables;
  if (one_warp && results <= rules.warp_slots / 2) return Form::warp_tables;
  const bool dense = width / rules.window_columns_a_result <= results;
  const Offset apart = ranked_bytes(width, Offset{kRankedWarps} * results, rules.value_bytes);
  const bool fits_apart = apart <= rules.ranked_bytes;
  if (dense && width <= kSmallWindowWarps * rules.window_small_columns &&
      (one_warp || (width / 2 <= results && !fits_apart)))
    return Form::small_windows;
  if ((dense || !one_warp) && results <= kMostRanks) {
    const Offset needs = fits_apart ? apart : ranked_bytes(width, results, rules.value_bytes);
    if (needs <= rules.ranked_small_bytes) return Form::small_ranked;
    if (needs <= rules.ranked_bytes) return Form::ranked;
  }
  if (!dense && results <= rules.block_slots / 2) return Form::block_tables;
  if (!dense && results <= rules.large_slots / 2) return Form::large_tables;
  return has_spans && width / rules.span_columns_a_result > results ? Form::ranked_spans : Form::windows;
}

}  // namespace stages::spgemm
