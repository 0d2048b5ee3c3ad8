// Step 8 with parts so small that small problems come to every form, every batch and full tables.

#include <algorithm>
#include <map>
#include <type_traits>

#include "08_spgemm_multigpu/fast/shared_bytes.hpp"
#include "tests/cuda_mutants/small_rules.hpp"

namespace stages::cuda_mutants {
namespace {

using HashParts = OnDevice;

/// By the rules as they are, and with parts so small that small matrices come to the other forms.
Registry by_several_rules() {
  Registry registry;
  add_binned(registry, "as_it_is");
  add_binned(registry, "with_waits", {.rules = waiting(Rules{})});
  add_binned(registry, "threads", {.rules = waiting(kSingleThreads)});
  add_binned(registry, "bands", {.rules = recorded(kBands)});
  add_binned(registry, "tables", {.rules = recorded(kSmallTables)});
  add_binned(registry, "narrow", {.rules = waiting(kNarrowRows)});
  add_binned(registry, "long_rows", {.rules = recorded(kLongRows)});
  add_binned(registry, "spans", {.rules = recorded(spans())});
  add_binned(registry, "split_rows", {.rules = kSplitRows});
  add_binned(registry, "dense_rows", {.rules = waiting(kDenseRows)});
  add_binned(registry, "recorded_dense_rows", {.rules = recorded(kDenseRows)});
  return registry;
}

template <class T>
Registry with_small_parts() {
  Registry registry = by_several_rules();
  add_binned(registry, "large_tables_of_warps", {.rules = waiting(kLargeTablesOfWarps)});
  add_binned(registry, "bands_with_waits", {.rules = waiting(kBands)});
  add_binned(registry, "tables_with_waits", {.rules = waiting(kSmallTables)});
  add_binned(registry, "long_rows_with_waits", {.rules = waiting(kLongRows)});
  add_binned(registry, "spans_with_waits", {.rules = waiting(spans())});
  if (std::is_same_v<T, float>) {  // what does not depend on the type is seen with one of them
    Rules in_one_bitmap = spans();
    in_one_bitmap.bitmap_columns = Rules{}.bitmap_columns;
    add_binned(registry, "wide_pointers", {.wide_pointers = true});
    add_structure_reuse(registry, "reused_tables", {.rules = waiting(kSmallTables)});
    add_structure_reuse(registry, "reused_split_rows", {.rules = kSplitRows});
    add_structure_reuse(registry, "reused_dense_rows", {.rules = kDenseRows});
    add_binned(registry, "words_of_narrow_rows", {.rules = waiting(by_words(kNarrowRows))});
    add_binned(registry, "words_of_long_rows", {.rules = waiting(by_words(kLongRows))});
    add_binned(registry, "words_and_spans", {.rules = by_words(in_one_bitmap)});
    add_binned(registry, "many_blocks_count_narrow_spans",
               {.rules = waiting(many_blocks_count(spans(true)))});
  } else {
    add_binned(registry, "narrow_spans", {.rules = waiting(spans(true))});
    add_binned(registry, "many_blocks_count", {.rules = waiting(many_blocks_count(spans()))});
    add_binned(registry, "wide_pointers_split_rows", {.rules = kSplitRows, .wide_pointers = true});
    add_binned(registry, "wide_pointers_dense_rows", {.rules = kDenseRows, .wide_pointers = true});
    add_binned(registry, "recorded_narrow", {.rules = recorded(kNarrowRows)});
    add_binned(registry, "recorded_narrow_spans", {.rules = recorded(spans(true))});
    add_binned(registry, "recorded_words", {.rules = recorded(by_words(kNarrowRows)), .wide_pointers = true});
    add_structure_reuse(registry, "reused_recorded", {.rules = recorded(many_blocks_count(spans()))});
    add_binned(registry, "wide_pointers_tables", {.rules = kSmallTables, .wide_pointers = true});
  }
  return registry;
}

/// What a block takes of the sizes that depend on rules.
template <class T>
std::vector<std::size_t> bytes_of(const Rules& r) {
  using namespace spgemm;
  return {count_in_warp_tables_bytes(r.count_warp_slots),
          count_in_block_tables_bytes(r.count_block_slots),
          count_narrow_bytes(r.count_narrow_columns + kSkippedBits),
          multiply_narrow_bytes<T>(r.narrow_columns, r.narrow_results),
          multiply_in_warp_tables_bytes<T>(r.warp_slots),
          multiply_in_warp_tables_bytes<T>(r.warp_small_slots),
          block_table_bytes<T>(r.block_slots),
          block_table_bytes<T>(r.large_slots),
          window_bytes<T>(kWindowWarps, r.window_columns),
          window_bytes<T>(kSmallWindowWarps, r.window_small_columns),
          static_cast<std::size_t>(r.ranked_bytes) + kRankedStaticBytes - kStaticBytes,
          static_cast<std::size_t>(r.ranked_small_bytes) + kRankedStaticBytes - kStaticBytes,
          static_cast<std::size_t>(r.bitmap_columns / 8)};
}

template <class T>
void expect_rules_that_fit(spgemm::SharedMemory shared) {
  const Rules rules = spgemm::fitted_to_memory<T>({}, shared);
  const auto bytes = bytes_of<T>(rules);
  for (std::size_t k = 0; k < bytes.size(); ++k) {
    EXPECT_LE(bytes[k] + spgemm::kStaticBytes, shared.of_block) << "size " << k;
    EXPECT_GT(bytes[k], 0U) << "size " << k;
  }
  for (const Index columns :
       {rules.window_columns, rules.window_small_columns, rules.narrow_columns, rules.count_narrow_columns})
    EXPECT_EQ(columns % 32, 0);
  // Where such a row was counted in parts, it is the first of them.
  EXPECT_LE(spgemm::kSmallWindowWarps * rules.window_small_columns,
            spgemm::kWindowWarps * rules.window_columns);
  for (const std::size_t of_block :
       {static_cast<std::size_t>(rules.ranked_bytes) + spgemm::kRankedStaticBytes,
        spgemm::window_bytes<T>(spgemm::kWindowWarps, rules.window_columns) + spgemm::kStaticBytes})
    EXPECT_LE(2 * (of_block + spgemm::kReservedBytes), shared.of_sm);
}

TEST_F(HashParts, RulesFitTheDevice) {
  // Compute capability 7.5, 8.6, 8.0, 9.0.
  for (const auto& [of_block, of_sm] : {std::pair{64, 64}, {99, 100}, {163, 164}, {227, 228}}) {
    SCOPED_TRACE(of_sm);
    const spgemm::SharedMemory shared{std::size_t{1024} * of_block, std::size_t{1024} * of_sm};
    expect_rules_that_fit<float>(shared);
    expect_rules_that_fit<double>(shared);
  }
}

/// Rungs 3 to 5 with tables so small that small matrices come to all of their kernels.
void add_rungs_with_small_tables(Registry& registry) {
  add_rows_of_b(registry, "rows_of_b", 16);
  add_bins(registry, "bins", {8, 16, 32, 64});
  add_sorted_rows(registry, "sorted_rows", {8, 16, 32, 64});
}
/// Rungs 2 and 6, whose atomics leave sums with last bits that change.
void add_rungs_with_atomics(Registry& registry) {
  add_hash_warp_per_row(registry, "hash_warp_per_row", 16);
  add_bitmaps(registry, "bitmaps", {8, 16, 32, 64});
}

/// tools/verify-gpu.sh has racecheck look at this in place of the entry, whose tables of 64 KB keep it for
/// minutes.
TEST_F(HashParts, OneTableForAllRowsOnSmallMatrices) {
  Registry registry;
  add_rungs_with_atomics(registry);
  add_rungs_with_small_tables(registry);
  for_both_types([&]<class T>(T) { expect_good_on_all<T>(registry); });
}

TEST_F(HashParts, EveryFormOnSmallMatrices) {
  for_both_types([]<class T>(T) {
    const Registry registry = with_small_parts<T>();
    expect_good_on_all<T>(registry);
    expect_good_by_turns<SpgemmProblem<T>>([&](const auto&) { return registry; });
    if (std::is_same_v<T, float>) return;
    GpuExec exec;  // chains are of floats, whatever T is
    for (const Entry& entry : registry.entries())
      EXPECT_EQ(battery::check_chains(entry, exec), "") << entry.name;
  });
}

/// Column j becomes column `by` j, or, so that neighbouring rows have none in common, one of those behind it.
Matrix spread(Matrix m, Index by, bool apart = false) {
  m.cols *= by;
  for (Index row = 0; row < m.rows; ++row) {
    for (Offset p = m.row_ptr[static_cast<std::size_t>(row)];
         p < m.row_ptr[static_cast<std::size_t>(row) + 1]; ++p) {
      Index& column = m.col_idx[static_cast<std::size_t>(p)];
      column = by * column + (apart ? row % by : 0);
    }
  }
  return m;
}

/// A row of 1,100 entries that name short rows of B, whose columns differ, or are the same few; among the last
/// are rows of B for all of a block's warps, and rows for the block, more of them than it can remember. And
/// rows of A that are long in the mean.
template <class T>
std::vector<SpgemmProblem<T>> long_rows_of_short_ones() {
  using namespace matrices;
  const Matrix a = dense_row(5, 1100, 2);
  std::vector<Index> few, many;
  for (Index k = 0; k < 1100; ++k) {
    few.push_back(k % 150 == 7 ? 300 : k == 600 ? 1100 : k % 5);
    many.push_back(k < 40 ? 1100 : k % 5);
  }
  const std::vector<Index> long_ones{900, 0, 1, 900, 2, 900};
  return {problem<T>("long_in_the_mean", with_row_lengths(long_ones), uneven(900, 500, 3)),
          problem<T>("many_columns", a, uneven(1100, 9000, 2)),
          problem<T>("few_columns", a, spread(with_row_lengths(few), 8)),
          problem<T>("long_ones", dense_row(2, 1100, 1), spread(with_row_lengths(many), 64, true))};
}

TEST_F(HashParts, LongRowsOfShortOnes) {
  Registry registry;
  add_binned(registry, "as_it_is");
  add_bitmaps(registry, "bitmaps", {8, 16, 32, 64});
  add_binned(registry, "shared_sums", {.rules = kSharedSums});
  add_binned(registry, "words_and_shared_sums", {.rules = by_words(kSharedSums)});
  add_binned(registry, "split_rows", {.rules = kSplitRows});
  add_binned(registry, "dense_rows", {.rules = kDenseRows});
  for_both_types([&]<class T>(T) {
    for (const auto& p : long_rows_of_short_ones<T>()) expect_good(registry, p);
  });
}

/// Rows of B are short and have columns in common, so lanes that add products of several of them at once hold
/// equal columns, which they add up in an order of their own.
TEST_F(HashParts, TheOrderOfThreadsDoesNotShow) {
  Registry registry = by_several_rules();
  add_binned(registry, "large_tables_of_warps", {.rules = kLargeTablesOfWarps});
  add_binned(registry, "shared_sums", {.rules = kSharedSums});
  add_rungs_with_small_tables(registry);
  for (const auto& p :
       {problem<float>("short", matrices::uneven(20, 300, 60), matrices::uneven(300, 90, 4)),
        problem<float>("long", matrices::uneven(9, 40, 20), matrices::uneven(40, 900, 250)),
        problem<float>("hub", matrices::dense_row(3, 600, 1), spread(matrices::uneven(600, 300, 4), 8))}) {
    for (const Entry& entry : registry.entries())
      EXPECT_TRUE(all_bits_agree(entry, p)) << entry.name << ", " << p.name;
  }
}

TEST_F(HashParts, SmallMatricesComeToEveryForm) {
  Registry registry = by_several_rules();
  add_rungs_with_atomics(registry);
  add_rungs_with_small_tables(registry);
  std::map<std::string, double> rows;  // what entries say of them
  for (const auto& p : problems<float>()) {
    for (const Entry& entry : registry.entries()) {
      GpuExec exec;
      const auto plan = entry.on<SpgemmProblem<float>>().prepare(p, exec);
      run_once(*plan, p);
      for (const Metric& metric : plan->metrics())
        if (metric.name.starts_with("rows_")) rows[metric.name] += metric.value;
    }
  }
  EXPECT_EQ(rows.size(), 24U + 8U);
  for (const auto& [name, count] : rows) EXPECT_GT(count, 0) << name;
}

/// So wide that a column and the number of a product do not fit into 32 bits, or that a hash table counts the
/// results of a row sooner than a bitmap.
TEST_F(HashParts, VeryWideMatrices) {
  using namespace matrices;
  Registry registry;
  add_binned(registry, "as_it_is");
  add_binned(registry, "threads", {.rules = kSingleThreads});
  add_bitmaps(registry, "bitmaps", {2, 4, 8, 16});  // which have no room for so many columns
  for_both_types([&]<class T>(T) {
    expect_good(registry, problem<T>("29_bits", lower_triangle(17), strided(17, 1 << 29, 1 << 26)));
    expect_good(registry, problem<T>("scattered", dense(1, 9), strided(9, 150'000, 1200)));
  });
}

/// Rows as wide as bitmaps are, which begin in the middle of a word. Words go on from 32 columns to the next
/// 32. Seven rows of 128 products are a warp's work on the executor, eight would be a block's.
TEST_F(HashParts, WordsThatDoNotBeginWithTheRow) {
  Rules rules = waiting(by_words(kNarrowRows));
  rules.count_narrow_columns = rules.narrow_columns = 128;
  Registry registry;
  add_binned(registry, "narrow", {.rules = rules});
  add_binned(registry, "long_rows", {.rules = by_words(kLongRows)});
  for (const Index first : {0, 5, 31}) {
    Matrix b = matrices::dense(7, 128);
    b.cols = 200;
    for (Index& column : b.col_idx) column += first;
    expect_good(registry, problem<float>("shifted", matrices::dense(20, 7), b));
  }
}

}  // namespace
}  // namespace stages::cuda_mutants
