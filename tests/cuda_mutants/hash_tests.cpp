// Step 8 with parts so small that small problems come to every form, every batch and full tables.

#include <algorithm>
#include <map>
#include <set>
#include <type_traits>

#include "08_spgemm_multigpu/fast/binned.hpp"
#include "08_spgemm_multigpu/fast/recorded.hpp"
#include "08_spgemm_multigpu/fast/shared_bytes.hpp"
#include "08_spgemm_multigpu/fast/split_rows.hpp"
#include "08_spgemm_multigpu/stage.hpp"
#include "common/matrix/error.hpp"
#include "tests/cuda_mutants/support.hpp"

namespace stages::cuda_mutants {
namespace {

using spgemm::Rules;
using HashParts = OnDevice;

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
constexpr Rules kSmallTables{.most_by_threads = 0,
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
constexpr Rules kLongRows{.most_by_threads = 0,
                          .most_sorted = 16,
                          .warp_products = 100,
                          .warp_rows_of_b = 8,
                          .ranked_bytes = 2000,
                          .ranked_small_bytes = 600};

/// The same with ranks for thousands of results, of which a block's warps have no sums of their own, so that
/// these exchange products, also where more of them come of an entry of A.
constexpr Rules kSharedSums{.most_by_threads = 0,
                            .most_sorted = 16,
                            .warp_products = 100,
                            .warp_rows_of_b = 8,
                            .ranked_bytes = 20'000,
                            .ranked_small_bytes = 20'000,
                            .exchanged_products = 40};

/// Bitmaps of a row's range, of which few rows have a sum for each column.
constexpr Rules kNarrowRows{.most_by_threads = 0,
                            .most_sorted = 16,
                            .count_narrow_columns = 4096,
                            .narrow_columns = 640,
                            .narrow_results = 40};

/// Rows of a dozen entries of A are cut into sections of five, whatever rows of B they name.
constexpr Rules kSplitRows{.long_row = 12, .long_row_products = 1'000'000, .section_entries = 5};

/// A thread a row, however few they are.
constexpr Rules kSingleThreads{.thread_rows_a_sm = 0};

/// Warps with tables for hundreds of results: lists sorted in registers, 16 a lane, and in shared memory.
constexpr Rules kLargeTablesOfWarps{.most_by_threads = 0,
                                    .most_sorted = 0,
                                    .count_narrow_columns = 0,
                                    .narrow_columns = 0,
                                    .warp_small_slots = 512,
                                    .warp_slots = 2048};

/// Rows of a few results are cut into parts of 512 columns: one block has all spans of a row, or, where they
/// are `narrow`, as where there are few rows, there is a span for each part.
Rules spans(bool narrow = false) {
  Rules rules = kSmallTables;
  rules.warp_small_slots = rules.warp_slots = rules.block_slots = rules.large_slots = 8;
  rules.count_warp_slots = rules.count_block_slots = 8;
  rules.ranked_bytes = 500;
  rules.span_blocks_a_row = rules.span_blocks = 1;
  if (!narrow) rules.span_blocks_an_sm = 0;
  return rules;
}

/// Huge rows are counted by a block for each two of their parts.
Rules many_blocks_count(Rules rules) {
  rules.count_blocks_a_row = 3;
  return rules;
}

/// Where a product is recorded, one block takes all rows of its form.
Rules recorded(Rules rules) {
  rules.recorded_blocks_a_sm = 0;
  return rules;
}

/// Bitmaps count by the words of B, however few columns these have.
Rules by_words(Rules rules) {
  rules.entries_a_word = 0;
  rules.word_products = rules.products_a_word_entry = 0;
  return rules;
}

/// The host waits for the sizes of bins, however small the product.
Rules waiting(Rules rules) {
  rules.recorded_rows_a_sm = 0;
  return rules;
}

template <class T>
Registry with_small_parts() {
  Registry registry;
  add_binned(registry, "large_tables_of_warps", {.rules = waiting(kLargeTablesOfWarps)});
  add_binned(registry, "threads", {.rules = waiting(kSingleThreads)});
  add_binned(registry, "tables", {.rules = waiting(kSmallTables)});
  add_binned(registry, "narrow", {.rules = waiting(kNarrowRows)});
  add_binned(registry, "long_rows", {.rules = waiting(kLongRows)});
  add_binned(registry, "spans", {.rules = waiting(spans())});
  add_binned(registry, "split_rows", {.rules = kSplitRows});
  if (std::is_same_v<T, float>) {  // what does not depend on the type is seen with one of them
    Rules in_one_bitmap = spans();
    in_one_bitmap.bitmap_columns = Rules{}.bitmap_columns;
    Rules by_hashing;  // short rows are counted in hash tables
    by_hashing.sorts_to_count = false;
    add_binned(registry, "wide_pointers", {.wide_pointers = true});
    add_binned(registry, "counts_by_hashing", {.rules = by_hashing});
    add_structure_reuse(registry, "reused_tables", {.rules = waiting(kSmallTables)});
    add_structure_reuse(registry, "reused_split_rows", {.rules = kSplitRows});
    add_binned(registry, "words_of_narrow_rows", {.rules = waiting(by_words(kNarrowRows))});
    add_binned(registry, "words_of_long_rows", {.rules = waiting(by_words(kLongRows))});
    add_binned(registry, "words_and_spans", {.rules = by_words(in_one_bitmap)});
    add_binned(registry, "many_blocks_count_narrow_spans",
               {.rules = waiting(many_blocks_count(spans(true)))});
  } else {
    add_binned(registry, "narrow_spans", {.rules = waiting(spans(true))});
    add_binned(registry, "many_blocks_count", {.rules = waiting(many_blocks_count(spans()))});
    add_binned(registry, "wide_pointers_split_rows", {.rules = kSplitRows, .wide_pointers = true});
    add_binned(registry, "recorded_tables", {.rules = recorded(kSmallTables)});
    add_binned(registry, "recorded_narrow", {.rules = recorded(kNarrowRows)});
    add_binned(registry, "recorded_long_rows", {.rules = recorded(kLongRows)});
    add_binned(registry, "recorded_spans", {.rules = recorded(spans())});
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

/// Rungs 3 to 6 with tables so small, and spans so short, that small matrices come to all of their kernels.
void add_rungs_with_small_tables(Registry& registry) {
  add_rows_of_b(registry, "rows_of_b", {.count_slots = 32, .shared_results = 8});
  const BinSizes sizes{.slots = {8, 16, 64}, .count_slots = 64, .most_probes = 16, .span = 96};
  add_bins(registry, "bins", sizes);
  add_sorted_rows(registry, "sorted_rows", sizes);
  add_bitmaps(registry, "bitmaps", sizes);
}

/// tools/verify-gpu.sh has racecheck look at this in place of the entry, whose tables of 64 KB keep it for
/// minutes.
TEST_F(HashParts, OneTableForAllRowsOnSmallMatrices) {
  Registry registry;
  add_hash_warp_per_row(registry, "values_in_global_memory", {.count_slots = 256, .shared_results = 16});
  add_hash_warp_per_row(registry, "full_tables", {.count_slots = 32, .shared_results = 8});
  add_hash_warp_per_row(registry, "crowded", {.count_slots = 256, .shared_results = 16, .most_probes = 2});
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

/// By the rules as they are, and with parts so small that small matrices come to the other forms.
Registry by_several_rules() {
  Registry registry;
  add_binned(registry, "as_it_is");
  add_binned(registry, "with_waits", {.rules = waiting(Rules{})});
  add_binned(registry, "threads", {.rules = waiting(kSingleThreads)});
  add_binned(registry, "tables", {.rules = recorded(kSmallTables)});
  add_binned(registry, "narrow", {.rules = waiting(kNarrowRows)});
  add_binned(registry, "long_rows", {.rules = recorded(kLongRows)});
  add_binned(registry, "spans", {.rules = recorded(spans())});
  add_binned(registry, "split_rows", {.rules = kSplitRows});
  return registry;
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
  add_binned(registry, "shared_sums", {.rules = kSharedSums});
  add_binned(registry, "words_and_shared_sums", {.rules = by_words(kSharedSums)});
  add_binned(registry, "split_rows", {.rules = kSplitRows});
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
  add_hash_warp_per_row(registry, "full_tables", {.count_slots = 32, .shared_results = 8});
  add_rungs_with_small_tables(registry);
  std::map<std::string, double> rows;  // and slots: what entries say of them
  for (const auto& p : problems<float>()) {
    for (const Entry& entry : registry.entries()) {
      GpuExec exec;
      const auto plan = entry.on<SpgemmProblem<float>>().prepare(p, exec);
      run_once(*plan, p);
      for (const Metric& metric : plan->metrics())
        if (metric.name.starts_with("rows_") || metric.name == "slots") rows[metric.name] += metric.value;
    }
  }
  EXPECT_EQ(rows.size(), 21U + 3U + 6U);
  for (const auto& [name, count] : rows) EXPECT_GT(count, 0) << name;
}

/// The host launches each form for no fewer rows than the device then finds.
TEST_F(HashParts, BoundsOfRecordedProductsHold) {
  using spgemm::Form;
  Rules by_lanes, few;
  by_lanes.most_by_threads = 0;
  few.most_by_threads = few.most_sorted = 16;
  few.most_copied_short = 8;
  for (const Rules& rules : {Rules{}, by_lanes, few, kSmallTables, kNarrowRows}) {
    for (Offset products = 1; products < 600; ++products) {
      for (const Index rows_of_b : {1, 2, 5}) {
        if (rows_of_b > products) continue;
        const Form form = spgemm::form_by_products(rules, products, rows_of_b);
        EXPECT_LE(spgemm::least_products(rules, form), products) << products << " of " << rows_of_b;
        const spgemm::Bounds alone{.rows = 1, .products = products, .row_products = products, .results = 1};
        EXPECT_EQ(spgemm::most_rows(rules, alone, form), 1);
        for (const Index width : {1, 60, 30'000, 1'000'000}) {
          const Form counting = spgemm::counting_form(rules, {products, rows_of_b, width});
          EXPECT_EQ(spgemm::most_rows(rules, alone, counting), 1);
        }
      }
    }
  }
}

/// The host leaves out no form that a row has, and each form has rows.
TEST_F(HashParts, FormsOfRecordedProducts) {
  using spgemm::Form;
  Rules few_slots;  // sparse rows for which no table is large enough
  few_slots.warp_slots = 256;
  few_slots.block_slots = 512;
  few_slots.large_slots = 1024;
  few_slots.value_bytes = 8;
  std::set<Form> counting, multiplying;
  for (const Rules& rules : {Rules{}, kSmallTables, kNarrowRows, kLongRows, spans(), few_slots}) {
    for (const Index cols : {1, 40, 600, 8'224, 8'300, 20'000, 40'000, 140'000, 500'000, 3'000'000}) {
      for (Offset products = 2; products < 100'000'000; products += products / 2) {
        const spgemm::Bounds bounds{.rows = 1, .cols = cols, .products = products, .row_products = products};
        for (const Index rows_of_b : {2, 60, 5000}) {
          for (Index width = cols; width > 0; width = width * 2 / 3) {
            const Form counted = spgemm::counting_form(rules, {products, rows_of_b, width});
            EXPECT_TRUE(spgemm::is_counted_by(rules, bounds, counted)) << cols << " " << products;
            counting.insert(counted);
            for (Offset results = std::min(products, Offset{width}); results > 0; results /= 2) {
              for (const bool has_spans : {false, counted == Form::windows}) {
                const Form form = spgemm::multiplying_form(rules, counted, products, width,
                                                           static_cast<Index>(results), has_spans);
                EXPECT_TRUE(spgemm::is_multiplied_by(rules, bounds, form))
                    << cols << " columns, " << products << " products, width " << width << ", " << results;
                multiplying.insert(form);
              }
            }
          }
        }
      }
    }
  }
  for (int k = 0; k < static_cast<int>(Form::sort_256); ++k) {
    const auto form = static_cast<Form>(k);
    const bool counts = form == Form::windows || form == Form::block_table || form == Form::warp_table ||
                        form == Form::narrow;
    EXPECT_EQ(counting.contains(form), counts) << k;
    EXPECT_EQ(multiplying.contains(form), form != Form::copy_long) << k;
  }
}

/// So wide that a column and the number of a product do not fit into 32 bits, or that a hash table counts the
/// results of a row sooner than a bitmap.
TEST_F(HashParts, VeryWideMatrices) {
  using namespace matrices;
  Registry registry;
  add_binned(registry, "as_it_is");
  add_binned(registry, "threads", {.rules = kSingleThreads});
  for_both_types([&]<class T>(T) {
    expect_good(registry, problem<T>("29_bits", lower_triangle(17), strided(17, 1 << 29, 1 << 26)));
    expect_good(registry, problem<T>("scattered", dense(1, 9), strided(9, 150'000, 1200)));
  });
}

TEST_F(HashParts, RowPointersAsThoseOfAPartOfALargerMatrix) {
  GpuExec exec;
  const auto p = problem<float>("gaps", matrices::gaps(64, 49), matrices::gaps(49, 51));
  const auto plan = spgemm::make_binned(p, exec, {});
  run_once(*plan, p);
  std::vector<Offset> found(65);
  const Offset* const on_device = plan->row_ptr_from(1000);
  exec.synchronize();
  STAGES_CUDA(cudaMemcpy(found.data(), on_device, found.size() * sizeof(Offset), cudaMemcpyDeviceToHost));
  for (Offset& begin : found) begin -= 1000;
  const Csr<float> c = plan->fetch();
  EXPECT_TRUE(std::equal(found.begin(), found.end(), c.row_ptr.begin(), c.row_ptr.end()));
}

/// A product that waits for the host, or launches graphs of its own, cannot be captured as a whole: it is an
/// error, not the end of the program.
TEST_F(HashParts, NotInsideAnotherGraph) {
  const auto p = problem<float>("gaps", matrices::gaps(64, 49), matrices::gaps(49, 51));
  for (const Rules& rules : {Rules{}, waiting(Rules{})}) {
    GpuExec exec(Launch::graph);
    const auto plan = spgemm::make_binned(p, exec, {.rules = rules});
    plan->load(make_operands(p, ValueKind::real, 1));
    EXPECT_THROW(exec.record([&] { plan->run(); }), Error);
  }
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

/// A graph has the addresses of B that it was recorded with. And C may be counted once, before B is borrowed,
/// also where rows were split and their sections are of the old values.
TEST_F(HashParts, BorrowedValues) {
  struct Case {
    SpgemmProblem<float> problem;
    Rules rules;
    bool counted;
  };
  const auto small = problem<float>("gaps", matrices::gaps(64, 49), matrices::gaps(49, 51)),
             large = problem<float>("long", matrices::uneven(9, 40, 20), matrices::uneven(40, 900, 250));
  for (const auto& [p, rules, counted] :
       {Case{small, {}, false}, {large, recorded(spans()), true}, {large, kSplitRows, true}}) {
    GpuExec exec;
    const auto first = make_operands(p, ValueKind::real, 1), second = make_operands(p, ValueKind::real, 2);
    const DeviceArray<float> borrowed{std::span<const float>(second.b_values)};
    const auto plan = spgemm::make_binned(p, exec, {.rules = rules});
    plan->load(first);
    if (counted) {
      plan->count();
      plan->borrow_b({nullptr, borrowed.data()});
      plan->multiply();
    } else {
      plan->run();
      plan->borrow_b({nullptr, borrowed.data()});
      plan->load(first);
      plan->reset();
      plan->run();
    }
    EXPECT_EQ(verify(p, {first.a_values, second.b_values}, plan->fetch(), ValueKind::real, {}).failure, "");
  }
}

TEST_F(HashParts, ResultsThatDoNotFitGoToTheHostInBatches) {
  Registry of_floats, of_doubles;
  add_binned(of_floats, "batches_of_tables", {.rules = kSmallTables, .result_bytes = 6000});
  add_structure_reuse(of_floats, "reused_batches", {.result_bytes = 6000});
  add_binned(of_floats, "batches_of_split_rows", {.rules = kSplitRows, .result_bytes = 6000});
  add_binned(of_doubles, "a_row_a_batch", {.result_bytes = 1});
  add_binned(of_doubles, "batches", {.result_bytes = 6000});
  expect_good_on_all<float>(of_floats);
  expect_good_on_all<double>(of_doubles);
  expect_good_by_turns<SpgemmProblem<float>>([&](const auto&) { return of_floats; });
  GpuExec exec;
  const auto p = problem<float>("wide", matrices::uneven(40, 30, 5), matrices::uneven(30, 9000, 14));
  const auto plan = of_doubles.find("batches").on<SpgemmProblem<float>>().prepare(p, exec);
  EXPECT_EQ(plan->note(), "");
  run_once(*plan, p);
  EXPECT_NE(plan->note().find("batches of rows, and is on the host"), std::string::npos) << plan->note();
  double rows = 0;
  for (const Metric& metric : plan->metrics())
    if (metric.name.starts_with("rows_") && metric.name != "rows_split") rows += metric.value;
  EXPECT_EQ(rows, 40) << "rows of all forms, in all batches";
}

/// Run by ctest with STAGES_DEVICE_MEMORY=3, MiB: A, B and the workspace take one, C six.
TEST_F(HashParts, ADeviceWithLittleMemory) {
  if (device_facts().memory_bytes > std::size_t{4} << 20) GTEST_SKIP() << "needs STAGES_DEVICE_MEMORY=3";
  const auto p = problem<double>("outer", matrices::dense(700, 1), matrices::dense(1, 750));
  Registry registry;
  add_binned(registry);
  add_binned(registry, "waiting", {.rules = waiting(Rules{})});
  add_structure_reuse(registry);
  expect_good(registry, p);
  for (const Entry& entry : registry.entries()) {
    GpuExec exec;
    const auto plan = entry.on<SpgemmProblem<double>>().prepare(p, exec);
    run_once(*plan, p);
    EXPECT_NE(plan->note(), "") << entry.name;
  }
}

}  // namespace
}  // namespace stages::cuda_mutants
