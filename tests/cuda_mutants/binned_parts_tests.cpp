// The pieces of step 8's binned (08_spgemm_multigpu/binned.md).

#include <algorithm>
#include <set>

#include "08_spgemm_multigpu/fast/binned.hpp"
#include "08_spgemm_multigpu/fast/recorded.hpp"
#include "common/matrix/error.hpp"
#include "tests/cuda_mutants/small_rules.hpp"

namespace stages::cuda_mutants {
namespace {

using BinnedParts = OnDevice;

/// The host launches each form for no fewer rows than the device then finds.
TEST_F(BinnedParts, BoundsOfRecordedProductsHold) {
  using spgemm::Form;
  Rules by_lanes, few;
  by_lanes.most_by_threads = 0;
  few.most_by_threads = few.most_sorted = 16;
  few.most_copied_short = 8;
  for (const Rules& rules : {Rules{}, by_lanes, few, kSmallTables, kNarrowRows}) {
    for (Offset products = 1; products < 600; ++products) {
      for (const Index rows_of_b : {1, 2, 5}) {
        if (rows_of_b > products) continue;
        const auto longest = static_cast<Index>(products - (rows_of_b - 1));
        const Form form = spgemm::form_by_products(rules, {products, rows_of_b, 0, longest});
        EXPECT_LE(spgemm::least_products(rules, form), products) << products << " of " << rows_of_b;
        const spgemm::Bounds alone{.rows = 1, .products = products, .row_products = products, .results = 1};
        EXPECT_EQ(spgemm::most_rows(rules, alone, form), 1);
        for (const Index width : {1, 60, 30'000, 1'000'000}) {
          const Form counting = spgemm::counting_form(rules, {products, rows_of_b, width, longest});
          EXPECT_EQ(spgemm::most_rows(rules, alone, counting), 1);
        }
      }
    }
  }
}

/// The host leaves out no form that a row has, and each form has rows.
TEST_F(BinnedParts, FormsOfRecordedProducts) {
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
  for (int k = 0; k < static_cast<int>(Form::sorted_256); ++k) {
    const auto form = static_cast<Form>(k);
    const bool counts = form == Form::windows || form == Form::block_tables || form == Form::warp_tables ||
                        form == Form::narrow;
    EXPECT_EQ(counting.contains(form), counts) << k;
    EXPECT_EQ(multiplying.contains(form), form != Form::merged) << k;
  }
}

TEST_F(BinnedParts, WhatIsRecorded) {
  GpuExec exec;
  auto p = problem<float>("long", matrices::uneven(9, 40, 20), matrices::uneven(40, 900, 250));
  EXPECT_NE(spgemm::make_recorded(p, exec, {}), nullptr);
  EXPECT_EQ(spgemm::make_recorded(p, exec, {.rules = waiting(Rules{})}), nullptr);
  EXPECT_EQ(spgemm::make_recorded(p, exec, {.rules = kSplitRows}), nullptr);
  EXPECT_EQ(spgemm::make_recorded(p, exec, {.result_bytes = 6000}), nullptr);
  p.rounds = 2;
  EXPECT_EQ(spgemm::make_recorded(p, exec, {}), nullptr);
}

/// A product that waits for the host, or launches graphs of its own, cannot be captured as a whole: it is an
/// error, not the end of the program.
TEST_F(BinnedParts, NotInsideAnotherGraph) {
  const auto p = problem<float>("gaps", matrices::gaps(64, 49), matrices::gaps(49, 51));
  Registry registry;
  add_binned(registry, "recorded");
  add_binned(registry, "waiting", {.rules = waiting(Rules{})});
  for (const Entry& entry : registry.entries()) {
    GpuExec exec(Launch::graph);
    const auto plan = entry.on<SpgemmProblem<float>>().prepare(p, exec);
    plan->load(make_operands(p, ValueKind::real, 1));
    EXPECT_THROW(exec.record([&] { plan->run(); }), Error);
  }
}

TEST_F(BinnedParts, RowPointersAsThoseOfAPartOfALargerMatrix) {
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

/// Columns, and B's values, that lie in device memory already, those of A as rows of a larger matrix. What A's
/// values were before does not show.
TEST_F(BinnedParts, BorrowedOperands) {
  const auto small = problem<float>("gaps", matrices::gaps(64, 49), matrices::gaps(49, 51)),
             large = problem<float>("long", matrices::uneven(9, 40, 20), matrices::uneven(40, 900, 250));
  for (const auto& [p, rules] : {std::pair{small, Rules{}}, {large, Rules{}}, {large, spans()}}) {
    for (const bool other : {false, true}) {
      GpuExec exec;
      const Csr<float>&a = *p.a, &b = *p.b;
      const auto operands = make_operands(p, ValueKind::real, 1);
      std::vector<Index> columns(3, 0);
      columns.insert(columns.end(), a.col_idx.begin(), a.col_idx.end());
      Buffer<Offset> row_ptr = a.row_ptr;
      for (Offset& at : row_ptr) at += 3;
      const DeviceArray<Index> of_a{std::span<const Index>(columns)}, of_b{std::span<const Index>(b.col_idx)};
      const DeviceArray<float> values{std::span<const float>(operands.b_values)};
      auto facts = spgemm::facts_of(p, {.rules = rules, .wide_pointers = other});
      EXPECT_EQ(facts.wide_pointers, other);
      facts.has_words = other;
      const auto plan = spgemm::make_binned<float>(
          {a.rows, a.cols, row_ptr.data(), of_a.data()},
          {b.rows, b.cols, b.row_ptr.data(), of_b.data(), values.data()}, facts, exec, {.rules = rules});
      plan->run();
      plan->load({operands.a_values, {}});
      plan->reset();
      plan->run();
      EXPECT_EQ(verify(p, operands, plan->fetch(), ValueKind::real, {}).failure, "") << p.name << other;
    }
  }
}

TEST_F(BinnedParts, ResultsThatDoNotFitGoToTheHostInBatches) {
  Registry of_floats, of_doubles;
  add_binned(of_floats, "batches_of_tables", {.rules = kSmallTables, .result_bytes = 6000});
  add_structure_reuse(of_floats, "reused_batches", {.result_bytes = 6000});
  add_binned(of_floats, "batches_of_split_rows", {.rules = kSplitRows, .result_bytes = 6000});
  add_binned(of_floats, "batches_of_dense_rows", {.rules = kDenseRows, .result_bytes = 6000});
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
    if (metric.name.starts_with("rows_") && metric.name != "rows_split" && metric.name != "rows_dense")
      rows += metric.value;
  EXPECT_EQ(rows, 40) << "rows of all forms, in all batches";
}

/// Run by ctest with STAGES_DEVICE_MEMORY=3, MiB: A, B and the workspace take one, C six.
TEST_F(BinnedParts, ADeviceWithLittleMemory) {
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
