#pragma once
// Rules of step 8 with which small matrices come to every form, and such matrices.

#include "08_spgemm_multigpu/stage.hpp"
#include "tests/cuda_mutants/support.hpp"

namespace stages::cuda_mutants {

using spgemm::Rules;

template <class T>
SpgemmProblem<T> problem(const char* name, const Matrix& a, const Matrix& b) {
  return make_spgemm_problem(name, share<T>(a), share<T>(b));
}

/// Rows of all lengths in narrow and wide ranges, dense ones, copies, empty ones, A != B, rectangular.
template <class T>
std::vector<SpgemmProblem<T>> problems() {
  using namespace matrices;
  return {
      problem<T>("uneven", uneven(50, 40, 5), uneven(40, 51, 6)),
      problem<T>("wide", uneven(24, 30, 5), uneven(30, 3000, 14)),
      problem<T>("ramp", ramp(36, 40), uneven(40, 2000, 22)),
      problem<T>("band", banded(24, 9), banded(24, 7)),
      problem<T>("dense", dense(2, 20), dense(20, 150)),
      problem<T>("strided", dense(2, 30), strided(30, 1 << 12, 1 << 6)),
      problem<T>("hub", dense_row(5, 1500, 3), uneven(1500, 600, 2)),
      problem<T>("gaps", gaps(40, 49), gaps(49, 51)),
      problem<T>("copies", permutation(40), ramp(40, 90)),
      problem<T>("nothing", empty(35, 9), dense(9, 51)),
      problem<T>("no_rows", empty(0, 9), dense(9, 51)),
  };
}

template <class T>
void expect_good_on_all(const Registry& registry) {
  for (const auto& p : problems<T>()) expect_good(registry, p);
}

/// Tables, windows and bitmaps of a few dozen columns, and nothing sorted in registers.
inline constexpr Rules kSmallTables{.most_by_threads = 0,
                                    .most_sorted = 0,
                                    .most_copied_short = 8,
                                    .count_narrow_columns = 0,
                                    .narrow_columns = 0,
                                    .warp_small_slots = 16,
                                    .warp_slots = 32,
                                    .block_slots = 64,
                                    .large_slots = 128,
                                    .count_warp_slots = 64,
                                    .count_block_slots = 256,
                                    .ranked_bytes = 0,
                                    .ranked_small_bytes = 0,
                                    .window_columns = 32,
                                    .window_small_columns = 32,
                                    .bitmap_columns = 64};

/// Rows of a few dozen products are a block's work, with ranks as long as those fit.
inline constexpr Rules kLongRows{.most_by_threads = 0,
                                 .most_sorted = 16,
                                 .warp_products = 100,
                                 .warp_rows_of_b = 8,
                                 .ranked_bytes = 2000,
                                 .ranked_small_bytes = 600};

/// The same with ranks for thousands of results, of which a block's warps have no sums of their own, so that
/// these exchange products, also where more of them come of an entry of A.
inline constexpr Rules kSharedSums{.most_by_threads = 0,
                                   .most_sorted = 16,
                                   .warp_products = 100,
                                   .warp_rows_of_b = 8,
                                   .ranked_bytes = 20'000,
                                   .ranked_small_bytes = 20'000,
                                   .exchanged_products = 40};

/// Bitmaps of a row's range, of which few rows have a sum for each column.
inline constexpr Rules kNarrowRows{.most_by_threads = 0,
                                   .most_sorted = 16,
                                   .count_narrow_columns = 4096,
                                   .narrow_columns = 640,
                                   .narrow_results = 40,
                                   .narrow_long_results = 80};

/// Rows of a dozen entries of A are cut into sections of five, whatever rows of B they name.
inline constexpr Rules kDenseRows{.long_dense_row = 8, .long_row_products = 1'000'000};
inline constexpr Rules kSplitRows{
    .long_dense_row = 1 << 30, .long_row = 12, .long_row_products = 1'000'000, .section_entries = 5};

/// A thread a row, however few they are.
inline constexpr Rules kSingleThreads{.thread_rows_a_sm = 0, .band_products = 0};
inline constexpr Rules kBands{.most_by_threads = 0, .thread_rows_a_sm = 0};

/// Warps with tables for hundreds of results.
inline constexpr Rules kLargeTablesOfWarps{.most_by_threads = 0,
                                           .most_sorted = 0,
                                           .count_narrow_columns = 0,
                                           .narrow_columns = 0,
                                           .warp_small_slots = 512};

/// Rows of a few results are cut into parts of 512 columns: one block has all spans of a row, or, where they
/// are `narrow`, as where there are few rows, there is a span for each part.
inline Rules spans(bool narrow = false) {
  Rules rules = kSmallTables;
  rules.warp_small_slots = rules.warp_slots = rules.block_slots = rules.large_slots = 8;
  rules.count_warp_slots = rules.count_block_slots = 8;
  rules.ranked_bytes = 500;
  rules.span_blocks_a_row = rules.span_blocks = 1;
  if (!narrow) rules.span_blocks_an_sm = 0;
  return rules;
}

/// Huge rows are counted by a block for each two of their parts.
inline Rules many_blocks_count(Rules rules) {
  rules.count_blocks_a_row = 3;
  return rules;
}

/// Where a product is recorded, one block takes all rows of its form.
inline Rules recorded(Rules rules) {
  rules.recorded_blocks_a_sm = 0;
  return rules;
}

/// Bitmaps count by the words of B, however few columns these have.
inline Rules by_words(Rules rules) {
  rules.entries_a_word = 0;
  rules.word_products = rules.products_a_word_entry = 0;
  return rules;
}

/// The host waits for the sizes of bins, however small the product.
inline Rules waiting(Rules rules) {
  rules.recorded_rows_a_sm = 0;
  return rules;
}

}  // namespace stages::cuda_mutants
