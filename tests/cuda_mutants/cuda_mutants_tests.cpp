// Kernels with one planted fault each must be rejected by the checker on the backend at hand, for the right
// reason where the reason is known, and the same kernels without the fault must pass. The faults of the
// course reports behind steps 3 to 5 are among them.

#include <gtest/gtest.h>
#include <regex.h>

#include "common/battery/battery.hpp"
#include "common/battery/matrices.hpp"
#include "common/gpu/exec.hpp"
#include "common/gpu/facts.hpp"
#include "tests/cuda_mutants/mutants.hpp"
#include "tests/cuda_mutants/spmm_mutants.hpp"

namespace stages::cuda_mutants {
namespace {

using battery::Case;
using battery::Tally;

/// One fault: the entry that has it, its twin, what a rejection must say, and where it may pass unseen.
struct Mutant {
  std::string name;
  Entry entry;
  Entry twin;
  std::string says;
  std::vector<Case> cases;
  bool executor_only = false;  ///< hardware gives undefined results, which may happen to be right
  bool tensor_cores = false;   ///< needs those of compute capability 8.0, and floats
};

Case spmv(const char* name, std::function<Csr<double>()> a, Mode mode = Mode::single, Index products = 1) {
  return {.name = name, .op = Op::spmv, .a = std::move(a), .mode = mode, .products = products};
}
Case spgemm(const char* name, std::function<Csr<double>()> a, std::function<Csr<double>()> b) {
  return {.name = name, .op = Op::spgemm, .a = std::move(a), .b = std::move(b)};
}

/// Small matrices that among them show every fault of SpMV below.
std::vector<Case> spmv_cases() {
  using namespace matrices;
  return {
      spmv("ramp", [] { return ramp(70, 200); }),
      spmv("dense", [] { return dense(33, 150); }),
      spmv("hub", [] { return dense_row(9, 1000, 4); }),
      spmv(
          "stream", [] { return uneven(37, 90, 40); }, Mode::stream, 3),
      spmv(
          "chain", [] { return uneven(65, 65, 20); }, Mode::chain, 3),
      spmv("wide", [] { return strided(3, 66'000, 256); }),
  };
}

/// Small problems that among them show every fault of SpMM below.
std::vector<Case> spmm_cases() {
  using namespace matrices;
  const auto ramp_70 = [] { return ramp(70, 90); };
  return {
      {.name = "tail", .op = Op::spmm, .a = ramp_70, .n_cols = 37},
      {.name = "full_strips", .op = Op::spmm, .a = ramp_70, .n_cols = 64, .alpha = 3},
      {.name = "padded", .op = Op::spmm, .a = ramp_70, .n_cols = 9, .b_padding = 3, .c_padding = 6},
      {.name = "beta", .op = Op::spmm, .a = ramp_70, .n_cols = 5, .alpha = 2, .beta = 3},
      {.name = "hub", .op = Op::spmm, .a = [] { return dense_row(20, 500, 7); }, .n_cols = 33},
  };
}

std::vector<Case> spgemm_cases() {
  using namespace matrices;
  return {
      spgemm(
          "tiles", [] { return uneven(48, 64, 9); }, [] { return uneven(64, 32, 9); }),
      spgemm(
          "tails", [] { return uneven(37, 40, 5); }, [] { return uneven(40, 51, 6); }),
      spgemm(
          "wide_b", [] { return uneven(16, 20, 6); }, [] { return uneven(20, 90, 12); }),
  };
}

std::vector<Mutant> all_mutants() {
  std::vector<Mutant> all;
  const auto row = [&](const char* name, RowFault fault, const char* says, bool executor_only = false) {
    all.push_back({name, row_entry(fault), row_entry(RowFault::none), says, spmv_cases(), executor_only});
  };
  const auto tile = [&](const char* name, TileFault fault, const char* says) {
    auto cases = spmv_cases();
    std::erase_if(cases, [](const Case& c) { return c.name == "wide"; });  // its dense form is large
    all.push_back({name, tile_entry(fault), tile_entry(TileFault::none), says, std::move(cases)});
  };
  const auto hub = [&](const char* name, HubFault fault, const char* says) {
    all.push_back({name, hub_entry(fault), hub_entry(HubFault::none), says, spmv_cases()});
  };
  const auto shares = [&](const char* name, ShareFault fault) {
    all.push_back({name, share_entry(fault), share_entry(ShareFault::none), "expected", spmv_cases()});
  };
  const auto dot = [&](const char* name, DotFault fault, const char* says) {
    all.push_back({name, dot_entry(fault), dot_entry(DotFault::none), says, spgemm_cases()});
  };
  const auto atomics = [&](const char* name, AtomicFault fault, const char* says) {
    all.push_back({name, atomic_entry(fault), atomic_entry(AtomicFault::none), says, spmm_cases()});
  };
  const auto parts = [&](const char* name, PartsFault fault, const char* says) {
    all.push_back({name, parts_entry(fault), parts_entry(PartsFault::none), says, spmm_cases()});
  };
  const auto strips = [&](const char* name, SpmmShareFault fault, const char* says) {
    all.push_back(
        {name, spmm_share_entry(fault), spmm_share_entry(SpmmShareFault::none), says, spmm_cases()});
  };
  const auto tensor = [&](const char* name, TensorFault fault, const char* says) {
    all.push_back(
        {name, tensor_entry(fault), tensor_entry(TensorFault::none), says, spmm_cases(), false, true});
  };
  row("D2_a_b_failed_launch", RowFault::failed_launch, "is NaN: not written");
  row("D1_d_missing_tail", RowFault::missing_tail, "is NaN: not written");
  row("half_reduced", RowFault::half_reduced, "expected");
  row("wrong_mask", RowFault::wrong_mask, "mask", true);
  row("unzeroed", RowFault::unzeroed, "is NaN");
  row("narrow_columns", RowFault::narrow_columns, "expected");
  row("one_vector", RowFault::one_vector, R"(element \([0-9]+, [12]\) is .* expected)");
  tile("no_barrier_after_copy", TileFault::no_barrier_after_copy, "expected|is NaN");
  tile("no_barrier_before_copy", TileFault::no_barrier_before_copy, "expected|is NaN");
  tile("missing_last_tile", TileFault::missing_last_tile, "expected");
  tile("tail_leaves_early", TileFault::tail_leaves_early, "expected|is NaN");
  hub("counter_not_reset", HubFault::counter_not_reset, "expected|is NaN");
  hub("adds_too_early", HubFault::adds_too_early, "expected|is NaN");
  hub("last_chunk_lost", HubFault::last_chunk_lost, "expected");
  shares("carries_forgotten", ShareFault::carries_forgotten);
  shares("one_carry", ShareFault::one_carry);
  shares("carries_first", ShareFault::carries_first);
  atomics("missing_tail_strip", AtomicFault::missing_tail_strip, "is NaN: not written|expected");
  atomics("D3_b_unzeroed", AtomicFault::unzeroed, "is NaN");
  atomics("D3_b_set_once", AtomicFault::set_once, "is NaN|expected");
  atomics("zeroes_padding", AtomicFault::zeroes_padding, "padding");
  atomics("beta_ignored", AtomicFault::beta_ignored, "expected");
  atomics("b_without_padding", AtomicFault::b_without_padding, "is NaN|expected");
  atomics("c_with_ld_of_b", AtomicFault::c_with_ld_of_b, "padding|is NaN|expected");
  atomics("chunk_lost", AtomicFault::last_chunk_lost, "expected");
  parts("fix_up_lost", PartsFault::fix_up_lost, "expected");
  parts("fix_up_first", PartsFault::fix_up_first, "expected");
  parts("one_part_lost", PartsFault::one_part_lost, "expected");
  parts("wrong_slot", PartsFault::wrong_slot, "is NaN|expected");
  parts("alpha_forgotten", PartsFault::alpha_forgotten, "expected");
  strips("slots_not_added", SpmmShareFault::slots_not_added, "expected");
  strips("last_share_dropped", SpmmShareFault::last_share_dropped, "is NaN|expected");
  strips("strip_tail_lost", SpmmShareFault::strip_tail_lost, "is NaN");
  strips("empty_rows_unset", SpmmShareFault::empty_rows_unset, "is NaN: not written|expected");
  tensor("big_parts_alone", TensorFault::big_parts_alone, "times the error bound.*real values");
  tensor("small_b_lost", TensorFault::small_b_lost, "times the error bound.*real values");
  tensor("swapped_fragment", TensorFault::swapped_fragment, "expected");
  tensor("last_tile_lost", TensorFault::last_tile_lost, "expected");
  tensor("last_columns_lost", TensorFault::last_columns_lost, "is NaN: not written|expected");
  tensor("short_rows_lost", TensorFault::short_rows_lost, "is NaN: not written|expected");
  dot("D1_a_overruns_row", DotFault::overruns_row, "C has an entry at .* where no product falls");
  dot("D1_b_repeat_counts_once", DotFault::repeat_counts_once, R"(C\([0-9]+, [0-9]+\) is .* expected)");
  dot("D1_c_columns_by_rows", DotFault::columns_by_rows, "C has no entry at");
  dot("D1_d_missing_tail_of_dense_output", DotFault::missing_tail, "C has no entry at");
  return all;
}

template <class T>
Tally check(const Entry& entry, const Case& c, Exec& exec) {
  Tally tally;
  const battery::Limits limits;
  if (c.op == Op::spmv) check_on(entry, battery::make_problem<SpmvProblem<T>>(c), exec, limits, {}, tally);
  if (c.op == Op::spmm) check_on(entry, battery::make_problem<SpmmProblem<T>>(c), exec, limits, {}, tally);
  if (c.op == Op::spgemm)
    check_on(entry, battery::make_problem<SpgemmProblem<T>>(c), exec, limits, {}, tally);
  return tally;
}

bool matches(const std::string& text, const std::string& pattern) {
  regex_t compiled;
  if (regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0) {
    ADD_FAILURE() << "'" << pattern << "' is no pattern";
    return false;
  }
  const bool found = regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
  regfree(&compiled);
  return found;
}

class CudaMutants : public testing::TestWithParam<Mutant> {
 protected:
  void SetUp() override {
    if (const std::string problem = device_problem(); !problem.empty()) GTEST_SKIP() << problem;
    if (GetParam().executor_only && !device_facts().simulated)
      GTEST_SKIP() << "undefined on hardware, where it may go well; compute-sanitizer sees it";
    if (GetParam().tensor_cores && code_capability() < 80)
      GTEST_SKIP() << "no TF32 in code for " << code_capability();
  }

  template <class T>
  void expect_rejected() {
    const Mutant& m = GetParam();
    GpuExec exec;
    int rejected = 0, named = 0;
    std::string failures;
    for (const Case& c : m.cases) {
      const Tally twin = check<T>(m.twin, c, exec);
      EXPECT_TRUE(twin.failures.empty()) << "the twin without the fault: " << twin.text();
      const Tally tally = check<T>(m.entry, c, exec);
      if (tally.failures.empty()) continue;
      ++rejected;
      failures += "\n  " + tally.failures.front();
      named += matches(tally.failures.front(), m.says);
    }
    EXPECT_GT(rejected, 0) << "no case rejects this fault";
    EXPECT_GT(named, 0) << "no rejection says '" << m.says << "':" << failures;
  }
};

TEST_P(CudaMutants, AreRejectedAndTheirTwinsPass) {
  expect_rejected<float>();
  if (!GetParam().tensor_cores) expect_rejected<double>();
}

std::string mutant_name(const testing::TestParamInfo<Mutant>& mutant) {
  return mutant.param.name;
}

INSTANTIATE_TEST_SUITE_P(Planted, CudaMutants, testing::ValuesIn(all_mutants()), mutant_name);

void PrintTo(const Mutant& m, std::ostream* out) {
  *out << m.name;
}

}  // namespace
}  // namespace stages::cuda_mutants
