// Kernels with one planted fault each must be rejected by the checker on the backend at hand, for the right
// reason where the reason is known, and the same kernels without the fault must pass. The faults of the
// course reports behind steps 3 to 5 are among them.

#include <regex.h>

#include "common/battery/battery.hpp"
#include "tests/cuda_mutants/mutants.hpp"
#include "tests/cuda_mutants/support.hpp"

namespace stages::cuda_mutants {
namespace {

using battery::Case;
using battery::Tally;

/// Small problems that among them show every fault of their operation.
std::vector<Case> cases_of(Op op) {
  using namespace matrices;
  if (op == Op::spmv) {
    const auto make = [](const char* name, std::function<Csr<double>()> a, Mode mode = Mode::single) {
      return Case{
          .name = name, .op = Op::spmv, .a = a, .mode = mode, .products = mode == Mode::single ? 1 : 3};
    };
    return {make("ramp", [] { return ramp(70, 200); }),
            make("dense", [] { return dense(33, 150); }),
            make("hub", [] { return dense_row(9, 1000, 4); }),
            make(
                "stream", [] { return uneven(37, 90, 40); }, Mode::stream),
            make(
                "chain", [] { return uneven(65, 65, 20); }, Mode::chain),
            make("wide", [] { return strided(3, 66'000, 256); })};
  }
  if (op == Op::spmm) {
    const auto ramp_70 = [] { return ramp(70, 90); };
    return {
        {.name = "tail", .op = op, .a = ramp_70, .n_cols = 37},
        {.name = "full_strips", .op = op, .a = ramp_70, .n_cols = 64, .alpha = 3},
        {.name = "padded", .op = op, .a = ramp_70, .n_cols = 9, .b_padding = 3, .c_padding = 6},
        {.name = "beta", .op = op, .a = ramp_70, .n_cols = 5, .alpha = 2, .beta = 3},
        {.name = "hub", .op = op, .a = [] { return dense_row(20, 500, 7); }, .n_cols = 33},
    };
  }
  const auto make = [](const char* name, std::function<Csr<double>()> a, std::function<Csr<double>()> b) {
    return Case{.name = name, .op = Op::spgemm, .a = std::move(a), .b = std::move(b)};
  };
  return {
      make(
          "tiles", [] { return uneven(48, 64, 9); }, [] { return uneven(64, 32, 9); }),
      make(
          "uneven", [] { return uneven(41, 50, 9); }, [] { return uneven(50, 75, 11); }),
      make(
          "hub", [] { return dense_row(9, 100, 4); }, [] { return uneven(100, 90, 9); }),
      make(
          "outer", [] { return dense(260, 1); }, [] { return dense(1, 300); }),
      // Sums of many products: their order shows.
      make(
          "sums", [] { return dense(6, 50); }, [] { return dense(50, 40); }),
      // Columns beyond the slots: their order is not that of the slots.
      make(
          "wide", [] { return uneven(12, 20, 5); }, [] { return uneven(20, 3000, 7); }),
  };
}

/// A kernel with a fault, or without one.
using Form = Entry (*)(Fault);

/// Where a fault is not looked for.
enum class Only {
  everywhere,
  executor,  ///< hardware gives undefined results, which may happen to be right, or the kernel never ends
  floats,    ///< products of the check's 24-bit values add up exactly in double
};

struct Mutant {
  const char* name;
  Form form;
  Fault fault;
  const char* says;  ///< one rejection at least: a regular expression
  Only only = Only::everywhere;
};

using F = Fault;
constexpr const char* kUnset = "is NaN: not written|expected";
constexpr const char* kMisplaced = R"(C\(|outside|ascend)";

const Mutant kMutants[] = {
    {"D2_a_b_failed_launch", row_entry, F::failed_launch, "is NaN: not written"},
    {"D1_d_missing_tail", row_entry, F::missing_tail, "is NaN: not written"},
    {"half_reduced", row_entry, F::half_reduced, "expected"},
    {"wrong_mask", row_entry, F::wrong_mask, "mask", Only::executor},
    {"unzeroed", row_entry, F::unzeroed, "is NaN"},
    {"narrow_columns", row_entry, F::narrow_columns, "expected"},
    {"one_vector", row_entry, F::one_vector, R"(element \([0-9]+, [12]\) is .* expected)"},
    {"no_barrier_after_copy", tile_entry, F::no_barrier_after_copy, "expected|is NaN"},
    {"no_barrier_before_copy", tile_entry, F::no_barrier_before_copy, "expected|is NaN"},
    {"missing_last_tile", tile_entry, F::missing_last_tile, "expected"},
    {"tail_leaves_early", tile_entry, F::tail_leaves_early, "expected|is NaN"},
    {"counter_not_reset", hub_entry, F::counter_not_reset, "expected|is NaN"},
    {"adds_too_early", hub_entry, F::adds_too_early, "expected|is NaN"},
    {"last_chunk_lost", hub_entry, F::last_chunk_lost, "expected"},
    {"carries_forgotten", share_entry, F::fix_up_lost, "expected"},
    {"one_carry", share_entry, F::one_carry, "expected"},
    {"carries_first", share_entry, F::fix_up_first, "expected"},

    {"missing_tail_strip", atomic_entry, F::missing_tail_strip, kUnset},
    {"D3_b_unzeroed", atomic_entry, F::unzeroed, "is NaN"},
    {"D3_b_set_once", atomic_entry, F::set_once, "is NaN|expected"},
    {"zeroes_padding", atomic_entry, F::zeroes_padding, "padding"},
    {"beta_ignored", atomic_entry, F::beta_ignored, "expected"},
    {"b_without_padding", atomic_entry, F::b_without_padding, "is NaN|expected"},
    {"c_with_ld_of_b", atomic_entry, F::c_with_ld_of_b, "padding|is NaN|expected"},
    {"chunk_lost", atomic_entry, F::last_share_dropped, "expected"},
    {"fix_up_lost", spmm_share_entry, F::fix_up_lost, "expected"},
    {"fix_up_first", spmm_share_entry, F::fix_up_first, "expected"},
    {"slots_not_added", spmm_share_entry, F::slots_not_added, "expected"},
    {"one_part_lost", spmm_share_entry, F::one_part_lost, "expected"},
    {"wrong_slot", spmm_share_entry, F::wrong_slot, "is NaN|expected"},
    {"alpha_forgotten", spmm_share_entry, F::alpha_forgotten, "expected"},
    {"last_share_dropped", spmm_share_entry, F::last_share_dropped, "is NaN|expected"},
    {"strip_tail_lost", spmm_share_entry, F::missing_tail_strip, "is NaN"},
    {"empty_rows_unset", spmm_share_entry, F::empty_rows_unset, kUnset},
    {"big_parts_alone", tensor_entry, F::big_parts_alone, "times the error bound.*real values"},
    {"small_b_lost", tensor_entry, F::small_b_lost, "times the error bound.*real values"},
    {"swapped_fragment", tensor_entry, F::swapped_fragment, "expected"},
    {"last_tile_lost", tensor_entry, F::last_tile_lost, "expected"},
    {"last_columns_lost", tensor_entry, F::last_columns_lost, kUnset},
    {"short_rows_lost", tensor_entry, F::short_rows_lost, kUnset},

    {"D1_a_overruns_row", dot_entry, F::overruns_row, "C has an entry at .* where no product falls"},
    {"D1_b_repeat_counts_once", dot_entry, F::repeat_counts_once, R"(C\([0-9]+, [0-9]+\) is .* expected)"},
    {"D1_c_columns_by_rows", dot_entry, F::columns_by_rows, "C has no entry at"},
    {"D1_d_missing_tail_of_dense_output", dot_entry, F::missing_tail, "C has no entry at"},
    {"D4_a_full_table_probes_on", hash_entry, F::full_table_probes_on, "no progress|watchdog",
     Only::executor},
    {"full_table_drops", hash_entry, F::full_table_drops, "C has no entry|C holds"},
    {"D4_b_narrow_offsets", hash_entry, F::narrow_offsets, R"(C holds|C\(|ascend|outside)"},
    {"D4_e_unsorted", hash_entry, F::unsorted, "ascend"},
    {"D4_e_order_of_arrival", hash_entry, F::order_of_arrival, "other bits in another run", Only::floats},
    {"racing_sums", hash_entry, F::racing_sums, "expected"},
    {"first_entries_only", hash_entry, F::first_entries_only, "C has no entry|expected"},
    {"keys_not_cleared", hash_entry, F::keys_not_cleared, "where no product falls"},
    {"keys_not_compared", hash_entry, F::keys_not_compared, "C has no entry|expected"},
    {"prepared_values", hash_entry, F::prepared_values, "expected"},
    {"last_window_lost", window_entry, F::last_window_lost, "C has no entry"},
    {"sums_not_cleared", window_entry, F::sums_not_cleared, "expected"},
    {"edge_twice", window_entry, F::edge_twice, "ascend"},
    {"unnumbered_keys", sorting_entry, F::unnumbered_keys, "expected"},
    {"runs_cut_at_lanes", sorting_entry, F::runs_cut_at_lanes, "ascend"},
    {"batch_begins_again", window_entry, F::batch_begins_again, kMisplaced},
    {"border_in_no_bin", window_entry, F::border_in_no_bin, kMisplaced},
    {"words_not_numbered", window_entry, F::words_not_numbered, "expected"},
};

bool takes_floats_alone(Form form) {
  return form == tensor_entry;
}
/// Why a kernel cannot run on this device; empty: it can.
std::string missing(Form form) {
  if (const std::string problem = device_problem(); !problem.empty()) return problem;
  const bool has_cores = form != tensor_entry || code_capability() >= 80;
  return has_cores ? "" : fmt::format("no TF32 in code for {}", code_capability());
}

/// The dense form of the widest is large.
bool is_for(Form form, const Case& c) {
  return form != tile_entry || c.name != "wide";
}

template <class T>
std::string rejection(const Entry& entry, const Case& c, Exec& exec) {
  Tally tally;
  const auto check = [&](const auto& problem) { check_on(entry, problem, exec, {}, {}, tally); };
  if (c.op == Op::spmv) check(battery::make_problem<SpmvProblem<T>>(c));
  if (c.op == Op::spmm) check(battery::make_problem<SpmmProblem<T>>(c));
  if (c.op == Op::spgemm) check(battery::make_problem<SpgemmProblem<T>>(c));
  return tally.failures.empty() ? "" : tally.failures.front();
}

bool matches(const std::string& text, const char* pattern) {
  regex_t compiled;
  if (regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB) != 0) {
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
    if (const std::string why = missing(GetParam().form); !why.empty()) GTEST_SKIP() << why;
    if (GetParam().only == Only::executor && !device_facts().simulated)
      GTEST_SKIP() << "undefined on hardware, where it may go well, or never ends";
#if STAGES_SIMULATED
    if (GetParam().fault == Fault::full_table_probes_on) simt::set_watchdog(0.5);
#endif
  }
#if STAGES_SIMULATED
  void TearDown() override {
    simt::set_watchdog(0);
  }
#endif

  template <class T>
  void expect_rejected() {
    const Mutant& m = GetParam();
    const Entry entry = m.form(m.fault);
    GpuExec exec;
    std::string all;
    for (const Case& c : cases_of(entry.op)) {
      if (!is_for(m.form, c)) continue;
      const std::string said = rejection<T>(entry, c, exec);
      if (!said.empty() && matches(said, m.says)) return;
      if (!said.empty()) all += "\n  " + said;
    }
    ADD_FAILURE() << (all.empty() ? "no case rejects this fault" : "no rejection says '") << m.says
                  << "':" << all;
  }
};

TEST_P(CudaMutants, AreRejected) {
  expect_rejected<float>();
  if (!takes_floats_alone(GetParam().form) && GetParam().only != Only::floats) expect_rejected<double>();
}

INSTANTIATE_TEST_SUITE_P(Planted, CudaMutants, testing::ValuesIn(kMutants),
                         [](const auto& mutant) { return std::string(mutant.param.name); });

void PrintTo(const Mutant& m, std::ostream* out) {
  *out << m.name;
}

TEST(CudaMutantsWithoutAFault, Pass) {
  for (const Form form : {row_entry, tile_entry, hub_entry, share_entry, atomic_entry, spmm_share_entry,
                          tensor_entry, dot_entry, hash_entry, sorting_entry, window_entry}) {
    if (!missing(form).empty()) continue;
    const Entry entry = form(Fault::none);
    GpuExec exec;
    for (const Case& c : cases_of(entry.op)) {
      if (!is_for(form, c)) continue;
      EXPECT_EQ(rejection<float>(entry, c, exec), "") << entry.name;
      if (!takes_floats_alone(form)) {
        EXPECT_EQ(rejection<double>(entry, c, exec), "") << entry.name;
      }
    }
  }
}

}  // namespace
}  // namespace stages::cuda_mutants
