#pragma once
// Small products without the host in between (recorded.cu). binned.cu waits twice for what the device finds
// out: how many rows each form has, and how large C is. That and its many calls are most of the time of a small
// product. So where they cannot be many, every form is launched for as many rows as could have it (with a block
// a row, in a limited grid: forms.hpp), in lists apart from each other; the kernels read on the device how many
// there are. C gets as much room as it could need. Nothing is left to wait for, so prepare records the product
// as a graph, which run() only launches. Forms without rows cost a launch in a graph each, and blocks that find
// nothing to do; so those that no row can have are left out. Memory: 4 bytes a form and row of C for the lists.

#include <algorithm>

#include "08_spgemm_multigpu/fast/binned.hpp"

namespace stages::spgemm {

/// What is known of a product before its rows are looked at.
struct Bounds {
  Index rows = 0;
  Index cols = 0;  ///< of B
  Offset products = 0;
  Offset row_products = 0;  ///< the most that a row has
  Offset results = 0;       ///< at most
};

template <class T>
Bounds bounds_of(const SpgemmProblem<T>& problem) {
  return {problem.a->rows, problem.b->cols, problem.products, problem.max_row_products, problem.result_bound};
}

/// A row of that form has no fewer products.
inline Offset least_products(const Rules& rules, Form form) {
  switch (form) {
    case Form::copied_short: return 1;
    case Form::merged: return Offset{std::min(rules.most_copied_short, rules.most_sorted)} + 1;
    case Form::band: return std::max(2, rules.most_by_threads + 1);  // by default in larger products alone
    case Form::threads_16:
    case Form::sorted_16: return 2;
    case Form::threads_32:
    case Form::sorted_32: return 17;
    case Form::sorted_64: return 33;
    case Form::sorted_128: return 65;
    case Form::sorted_256: return 129;
    default: return std::max<Offset>(2, Offset{std::min(rules.most_sorted, rules.most_sorted_narrow)} + 1);
  }
}

/// No more rows have that form, which is not `empty`.
inline Index most_rows(const Rules& rules, const Bounds& bounds, Form form) {
  const Offset least = least_products(rules, form);
  if (bounds.row_products < least) return 0;
  return static_cast<Index>(std::min(Offset{bounds.rows}, bounds.products / least));
}

/// Whether counting_form() may give a row that form, and a kernel counts it.
inline bool is_counted_by(const Rules& rules, const Bounds& bounds, Form form) {
  const Index in_warp_table = rules.count_warp_slots / 2;  // products
  switch (form) {
    case Form::band: return rules.band_products > 0;
    case Form::merged:
    case Form::warp_tables:
    case Form::narrow: return true;
    case Form::windows: return bounds.row_products > in_warp_table;
    case Form::block_tables:
      return bounds.row_products > in_warp_table &&
             bounds.cols / rules.count_columns_a_product > in_warp_table;
    default: return form >= Form::sorted_256 && form < Form::copied_short;
  }
}

/// Whether multiplying_form() may give a row that form. Ranges of columns are at most as wide as B, so where B
/// has few columns, none is sparse in it, and all bitmaps fit.
inline bool is_multiplied_by(const Rules& rules, const Bounds& bounds, Form form) {
  const Index width = bounds.cols;
  const Offset results = std::min(bounds.row_products, Offset{width});
  const bool all_narrow =
      width / rules.narrow_columns_a_product <= rules.most_sorted + 1 && width <= rules.narrow_columns;
  const bool all_ranked =
      results <= kMostRanks && ranked_bytes(width, results, rules.value_bytes) <= Offset{rules.ranked_bytes};
  const auto any_sparse = [&](Index more_results) {
    return results > more_results && width / rules.window_columns_a_result > more_results;
  };
  switch (form) {
    case Form::ranked:
      return ranked_bytes(width, Offset{kRankedWarps} * results, rules.value_bytes) >
             Offset{rules.ranked_small_bytes};
    case Form::small_tables: return !all_narrow || rules.warp_small_slots / 2 > rules.narrow_results;
    case Form::warp_tables: return !all_narrow || rules.warp_slots / 2 > rules.narrow_results;
    case Form::block_tables: return !all_ranked || any_sparse(rules.warp_slots / 2);
    case Form::large_tables: return any_sparse(rules.block_slots / 2);
    case Form::narrow_long: return results > rules.narrow_results;
    case Form::band: return rules.band_products > 0;
    case Form::ranked_spans:
      if (!is_counted_by(rules, bounds, Form::windows)) return false;  // which alone makes spans
      [[fallthrough]];
    case Form::windows: return !all_ranked || any_sparse(rules.large_slots / 2);
    default: return true;
  }
}

/// Whether a product is so small that it is recorded, on a device with `sms` multiprocessors.
inline bool is_recorded(const Rules& rules, const Bounds& bounds, int sms) {
  return bounds.products > 0 && bounds.rows <= Offset{rules.recorded_rows_a_sm} * sms &&
         bounds.results <= rules.recorded_results;
}

/// A product as one graph on the current device. Null where it is not to be recorded, or where
/// what it may need does not fit.
template <class T>
std::unique_ptr<HalvesPlan<T>> make_recorded(const SpgemmProblem<T>& problem, Exec& exec,
                                             const Settings& settings);

}  // namespace stages::spgemm
