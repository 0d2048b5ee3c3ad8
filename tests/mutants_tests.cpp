// The checker under test: entries with one planted fault each must be rejected, for the right reason, and the
// same entries without the fault must pass. D1 and D2 are the two course reports whose programs gave wrong
// results: each of those mistakes stands here, but for a file that D1 wrote (h), which data/matrix_market has.

#include <gtest/gtest.h>

#include "common/battery/matrices.hpp"
#include "tests/battery.hpp"
#include "tests/in_run.hpp"
#include "tests/mutants/elsewhere.hpp"
#include "tests/mutants/spgemm.hpp"
#include "tests/mutants/spmm.hpp"
#include "tests/mutants/spmv.hpp"
#include "tests/running.hpp"

namespace stages {
namespace {

using battery::Case;
using battery::Tally;
using matrices::dense;
using matrices::of;
using matrices::strided;
using mutants::DotFault;
using mutants::Elsewhere;
using mutants::GatherFault;
using mutants::GustavsonFault;
using mutants::SpmmFault;
using mutants::SpmvFault;

/// One fault: an entry that has it, the same without it, and what a rejection must say.
struct Mutant {
  std::string fault;
  Entry entry, twin;
  std::string says;              ///< regular expression that at least one rejection matches
  std::vector<Case> extra = {};  ///< cases that the battery does not have
  bool only_double = false;
};

template <template <class> class PlanOf, class Fault>
Entry entry_with(const std::string& name, Fault fault, const Claims& claims = {}) {
  return entry_of<PlanOf>({.name = name, .idea = "a planted fault", .claims = claims}, fault)
      .entries()
      .front();
}

template <template <class> class PlanOf, class Fault>
Mutant mutant(const std::string& name, Fault fault, const std::string& says, const Claims& claims = {}) {
  return {.fault = name,
          .entry = entry_with<PlanOf>("mutant/" + name, fault, claims),
          .twin = entry_with<PlanOf>("twin/" + name, Fault::none),
          .says = says};
}

Mutant on_also(Mutant m, Case extra) {
  m.extra.push_back(std::move(extra));
  return m;
}

/// Plans that leave the multiplication to others. `Right` is one that is right.
template <template <class> class Right>
std::vector<Mutant> elsewhere_mutants() {
  constexpr const char* kNotByRun = "with the second real values.; it is the product of the first";
  const auto make = [](const char* name, Elsewhere where, const char* says) {
    return mutant<mutants::Misplaced<Right>::template Plan>(name, where, says);
  };
  return {
      make("multiplies_in_load", Elsewhere::load, kNotByRun),
      make("multiplies_in_reset", Elsewhere::reset, kNotByRun),
      make("multiplies_in_fetch", Elsewhere::fetch, kNotByRun),
      make("lazy", Elsewhere::lazy, kNotByRun),
      make("copies_from_load", Elsewhere::copied,
           "with the second real values.; it is the product of what load.. saw"),
      make("replays", Elsewhere::replayed, "with others in the place of the first"),
      make("gives_away", Elsewhere::once, "with the second real values"),
      // As a library's, which may have copies.
      {.fault = "knows_by_place",
       .entry = entry_with<mutants::Misplaced<Right>::template Plan>("vendor/by_place", Elsewhere::by_place),
       .twin = entry_with<mutants::Misplaced<Right>::template Plan>("vendor/twin", Elsewhere::none),
       .says = "with again the first real values"},
  };
}

std::vector<Mutant> spmv_mutants() {
  using F = SpmvFault;
  const auto make = [](const char* name, F fault, const char* says) {
    return mutant<mutants::FaultySpmv>(name, fault, says);
  };
  const Case long_row{.name = "long_row", .op = Op::spmv, .a = of(dense, 1, 100'001)};
  const Case wide{.name = "wide", .op = Op::spmv, .a = of(strided, 3, 65537, 256)};
  std::vector<Mutant> all = {
      make("D2_a_failed_library_call", F::failed_library_call, "is NaN: not written"),
      make("stale_answer", F::stale_answer, "expected .*the second real values"),
      on_also(make("lost_product", F::lost_product, "expected"), long_row),
      make("D1_d_missing_tail", F::missing_tail, "is NaN: not written"),
      make("wrong_last_row", F::wrong_last_row, R"(element \([0-9]+, 0\) is .* expected)"),
      make("empty_rows_unwritten", F::empty_rows_unwritten, "is NaN: not written"),
      make("never_zeroed", F::never_zeroed, "expected .*the second real values"),
      make("transposed", F::transposed, R"(element \([0-9]+, 0\) is .* expected)"),
      make("off_by_one_at_32", F::off_by_one_at_32, R"(expected .* \(32 products)"),
      make("overflowing_row_ptr", F::overflowing_row_ptr, "expected"),
      on_also(make("narrow_columns", F::narrow_columns, "expected"), wide),
      make("order_by_run", F::order_by_run, "gave other bits in another run"),
      make("order_by_parity", F::order_by_parity, "gave other bits in another run"),
      make("consumes_operand", F::consumes_operand, "the first, not loaded again"),
      make("same_vector_in_a_stream", F::same_vector, R"(element \([0-9]+, [12]\) is .* expected)"),
      make("throws", F::throws, "threw: the device is gone"),
      make("single_precision", F::single_precision, "times the error bound.*real values"),
  };
  all.back().only_double = true;
  return all;
}

std::vector<Mutant> spmm_mutants() {
  using F = SpmmFault;
  const auto make = [](const char* name, F fault, const char* says) {
    return mutant<mutants::FaultySpmm>(name, fault, says);
  };
  return {
      make("alpha_ignored", F::alpha_ignored, "expected"),
      make("beta_ignored", F::beta_ignored, "expected"),
      make("keeps_first_c0", F::keeps_first_c0, "with the second, with its own C0"),
      make("zero_times_infinity", F::zero_times_infinity, "is NaN.*with again the first real values"),
      make("zero_times_old", F::zero_times_old, "is NaN"),
      make("missing_column_tail", F::missing_column_tail, R"(element \(0, 8\) is NaN: not written)"),
      make("writes_padding", F::writes_padding, "the padding after line 0 was written: it holds 0"),
      make("scales_padding", F::scales_padding, "the padding after line 0 was written: it holds -?[1-9]"),
      make("copies_padding", F::copies_padding, "the padding after line 0 was written: it holds [1-9]"),
      make("reads_padding", F::reads_padding, "is NaN.*computed from what was not"),
      make("wrong_layout", F::wrong_layout, "expected"),
  };
}

std::vector<Mutant> spgemm_mutants() {
  using F = GustavsonFault;
  const auto make = [](const char* name, F fault, const char* says, const Claims& claims = {}) {
    return mutant<mutants::FaultyGustavson>(name, fault, says, claims);
  };
  const auto dot = [](const char* name, DotFault fault, const char* says) {
    return mutant<mutants::FaultyDot>(name, fault, says);
  };
  const auto gather = [](const char* name, GatherFault fault, const char* says) {
    return mutant<mutants::FaultyGather>(name, fault, says);
  };
  const Case long_dot{
      .name = "long_dot", .op = Op::spgemm, .a = of(dense, 1, 100'001), .b = of(dense, 100'001, 1)};
  return {
      make("null_kernel", F::null_kernel, "C is 0 x 0, expected"),
      on_also(make("lost_product", F::lost_product, "expected"), long_dot),
      make("repeated_columns", F::repeated_columns, "columns must ascend strictly"),
      make("ignores_loaded", F::ignores_loaded,
           R"(C\([0-9]+, [0-9]+\) is .* expected .*the first real values)"),
      make("drops_zeros_unclaimed", F::drops_zeros, "C has no entry at .*integer values"),
      make("drops_small_claiming_zeros", F::drops_small, "is not there, expected",
           {.drops_exact_zeros = true}),
      make("skips_zero_operands", F::skips_zero_operands, "C has no entry at .*real values"),
      make("grows", F::grows, "expected .*the second real values"),
      dot("D1_a_overruns_row", DotFault::overruns_row, R"(C has an entry at .* where no product falls)"),
      dot("D1_b_repeat_counts_once", DotFault::repeat_counts_once, R"(C\([0-9]+, [0-9]+\) is .* expected)"),
      dot("D1_c_columns_by_rows", DotFault::columns_by_rows,
          R"(C has no entry at \([0-9]+, [0-9]+\), where [0-9]+ products meet)"),
      dot("D1_d_missing_tail", DotFault::missing_tail, "C has no entry at"),
      gather("D1_e_values_over_columns", GatherFault::values_over_columns, "has column"),
      gather("D1_f_rows_cut_in_two", GatherFault::rows_cut_in_two,
             R"(row [0-9]+ has column [0-9]+ after column [0-9]+)"),
      gather("D1_g_padded_shares", GatherFault::padded_shares, "C has an entry at .* where no product falls"),
  };
}

std::vector<Mutant> all_mutants() {
  std::vector<Mutant> all;
  for (auto list :
       {spmv_mutants(), spmm_mutants(), spgemm_mutants(), elsewhere_mutants<mutants::FaultySpmv>(),
        elsewhere_mutants<mutants::FaultySpmm>(), elsewhere_mutants<mutants::FaultyGustavson>()}) {
    for (Mutant& m : list) all.push_back(std::move(m));
  }
  return all;
}

template <class T>
Tally check(const Entry& entry, const Case& c) {
  Exec exec;
  Tally tally;
  battery::with_problem<T>(c, [&](const auto& problem) { check_on(entry, problem, exec, {}, {}, tally); });
  return tally;
}

/// The cases on which a fault is looked for.
std::vector<Case> cases_for(const Mutant& m) {
  std::vector<Case> cases = m.extra;
  for (Case& c : battery::cases(m.entry.op, battery::Pass::small)) cases.push_back(std::move(c));
  return cases;
}

class Mutants : public testing::TestWithParam<Mutant> {};

/// D2 (b): its check printed PASSED over a failed run. Here no mutant gets past the runner: its row is not
/// good, says why, and has no time.
template <class T>
void expect_not_good(const Mutant& m, const Case& c) {
  Exec exec;
  const Entry* const entries[] = {&m.entry};
  Results results;
  battery::with_problem<T>(c, [&](const auto& problem) {
    run_problem(problem, entries, exec, {.time_budget = 0.001}, {}, results);
  });
  ASSERT_EQ(results.rows.size(), 1U);
  EXPECT_NE(results.rows[0].status, Status::good) << c.name;
  EXPECT_FALSE(results.rows[0].reason.empty()) << c.name;
  EXPECT_FALSE(results.rows[0].timed()) << c.name;
}

constexpr int kRejections = 3;  ///< after so many, and one that names the fault, no more cases are tried

/// The fault is rejected on at least one small case with the words that name it; the twin passes wherever the
/// mutant was rejected.
template <class T>
void expect_rejected(const Mutant& m) {
  const testing::Matcher<const std::string&> names_it = testing::ContainsRegex(m.says);
  int rejected = 0, named = 0;
  std::string failures;
  for (const Case& c : cases_for(m)) {
    if (named > 0 && rejected >= kRejections) break;
    const Tally tally = check<T>(m.entry, c);
    if (tally.failures.empty()) continue;
    if (++rejected == 1) expect_not_good<T>(m, c);  // one case is enough
    failures += "\n  " + tally.failures.front();
    named += names_it.Matches(tally.failures.front());
    const Tally twin = check<T>(m.twin, c);
    EXPECT_TRUE(twin.failures.empty()) << "the twin without the fault: " << twin.text();
  }
  EXPECT_GT(rejected, 0) << "no case rejects this fault";
  EXPECT_GT(named, 0) << "no rejection says '" << m.says << "':" << failures;
}

TEST_P(Mutants, IsRejectedNeverReportedAsGoodAndItsTwinPasses) {
  if (!GetParam().only_double) expect_rejected<float>(GetParam());
  expect_rejected<double>(GetParam());
}

std::string mutant_name(const testing::TestParamInfo<Mutant>& info) {
  return to_string(info.param.entry.op) + "_" + info.param.fault;
}

INSTANTIATE_TEST_SUITE_P(Planted, Mutants, testing::ValuesIn(all_mutants()), mutant_name);

/// An entry of a library has copies of what it loads, and the check sees none of these faults; its time tells.
TEST(InRun, TimeTellsWhatTheCheckOfALibraryDoesNot) {
  Exec exec;
  const auto problem = heavy_problem<SpmvProblem<double>>();
  for (const Elsewhere where : {Elsewhere::none, Elsewhere::copied, Elsewhere::replayed}) {
    const Entry entry = entry_with<mutants::Misplaced<mutants::FaultySpmv>::Plan>("vendor/library", where);
    EXPECT_EQ(check_entry(entry, problem, exec).failure, "");
    const std::string said = not_timed_in_run(entry, problem, exec);
    EXPECT_EQ(said.substr(0, 12), where == Elsewhere::none ? "" : "run() takes ") << said;
  }
}

/// What an entry does not promise is not demanded.
TEST(Claims, WhatIsNotClaimedIsNotDemanded) {
  Exec exec;
  for (const SpmvFault fault : {SpmvFault::order_by_run, SpmvFault::order_by_parity}) {
    const Entry entry = entry_with<mutants::FaultySpmv>("e", fault, {.bitwise_reproducible = false});
    const Tally tally = battery::run<float>(entry, exec, battery::Pass::small);
    EXPECT_TRUE(tally.failures.empty()) << tally.text();
  }
  const Entry drops =
      entry_with<mutants::FaultyGustavson>("e", GustavsonFault::drops_zeros, {.drops_exact_zeros = true});
  const Tally tally = battery::run<double>(drops, exec, battery::Pass::small);
  EXPECT_TRUE(tally.failures.empty()) << tally.text();
}

/// Parameters in gtest's messages.
void PrintTo(const Mutant& m, std::ostream* out) { *out << m.fault; }

}  // namespace
}  // namespace stages
