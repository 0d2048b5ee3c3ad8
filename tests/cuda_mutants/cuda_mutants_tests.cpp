// Kernels with one planted fault each must be rejected by the checker on the backend at hand, for the right
// reason where the reason is known, and the same kernels without the fault must pass. The faults of the
// course reports behind steps 3 to 5 are among them.

#include <regex>

#include "05_cuda_csr/stage.hpp"
#include "common/matrix/generate.hpp"
#include "tests/battery.hpp"
#include "tests/cuda_mutants/mutants.hpp"
#include "tests/cuda_mutants/support.hpp"

namespace stages::cuda_mutants {
namespace {

using battery::Case;
using battery::Tally;

/// All tests of this program are noted, by their names.
class NotesReached final : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    note_reached(fmt::format("{}.{}", test.test_suite_name(), test.name()), "");
  }
};
const bool kNotes = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new NotesReached);  // which it then owns
  return true;
}();

/// Small problems that among them show every fault of their operation.
std::vector<Case> cases_of(Op op) {
  using namespace matrices;
  if (op == Op::spmv)
    return {{.name = "ramp", .op = op, .a = of(ramp, 70, 200)},
            {.name = "hub", .op = op, .a = of(dense_row, 9, 1000, 4)}};
  const auto a = of(ramp, 70, 90);
  return {{.name = "tail", .op = op, .a = a, .n_cols = 37},
          {.name = "padded", .op = op, .a = a, .n_cols = 9, .b_padding = 3, .c_padding = 6},
          {.name = "beta", .op = op, .a = a, .n_cols = 5, .alpha = 2, .beta = 3}};
}

/// A kernel with a fault, or without one.
using MakeEntry = Entry (*)(Fault);

/// Where a fault is not looked for.
enum class Only {
  everywhere,
  executor,  ///< hardware gives undefined results, which may happen to be right
  floats,    ///< the check's 24-bit values: their products add up exactly in double
};

struct Mutant {
  const char* name;
  MakeEntry form;
  Fault fault;
  const char* says;  ///< one rejection at least: a regular expression
  Only only = Only::everywhere;
};

using F = Fault;

const Mutant kMutants[] = {
    {"D2_a_b_failed_launch", row_entry, F::failed_launch, "is NaN: not written"},
    {"wrong_mask", row_entry, F::wrong_mask, "mask", Only::executor},
    {"no_barrier_after_copy", tile_entry, F::no_barrier_after_copy, "expected|is NaN"},
    {"no_barrier_before_copy", tile_entry, F::no_barrier_before_copy, "expected|is NaN"},
    {"tail_leaves_early", tile_entry, F::tail_leaves_early, "expected|is NaN"},
    {"counter_not_reset", hub_entry, F::counter_not_reset, "expected|is NaN"},
    {"adds_too_early", hub_entry, F::adds_too_early, "expected|is NaN"},
    {"D3_b_unzeroed", atomic_entry, F::unzeroed, "is NaN"},
    {"D3_b_set_once", atomic_entry, F::set_once, "is NaN|expected"},
    {"zeroes_padding", atomic_entry, F::zeroes_padding, "padding"},
    {"b_without_padding", atomic_entry, F::b_without_padding, "is NaN|expected"},
    {"eleven_bits", atomic_entry, F::eleven_bits, "times the error bound.*real values", Only::floats},
};

template <class T>
std::string rejection(const Entry& entry, const Case& c, Exec& exec) {
  Tally tally;
  battery::with_problem<T>(c, [&](const auto& problem) { check_on(entry, problem, exec, {}, {}, tally); });
  return tally.failures.empty() ? "" : tally.failures.front();
}

class CudaMutants : public testing::TestWithParam<Mutant> {
 protected:
  void SetUp() override {
    if (const std::string why = device_problem(); !why.empty()) GTEST_SKIP() << why;
    if (GetParam().only == Only::executor && !device_facts().simulated)
      GTEST_SKIP() << "undefined on hardware, where it may go well";
  }

  template <class T>
  void expect_rejected() {
    const Mutant& m = GetParam();
    const Entry entry = m.form(m.fault);
    GpuExec exec;
    std::string all;
    for (const Case& c : cases_of(entry.op)) {
      const std::string said = rejection<T>(entry, c, exec);
      if (!said.empty() && std::regex_search(said, std::regex(m.says))) return;
      if (!said.empty()) all += "\n  " + said;
    }
    ADD_FAILURE() << (all.empty() ? "no case rejects this fault" : "no rejection says '") << m.says
                  << "':" << all;
  }
};

TEST_P(CudaMutants, AreRejected) {
  expect_rejected<float>();
  if (GetParam().only != Only::floats) expect_rejected<double>();
}

INSTANTIATE_TEST_SUITE_P(Planted, CudaMutants, testing::ValuesIn(kMutants),
                         [](const auto& mutant) { return std::string(mutant.param.name); });

void PrintTo(const Mutant& m, std::ostream* out) { *out << m.name; }

using CudaMutantsWithoutAFault = OnDevice;

TEST_F(CudaMutantsWithoutAFault, Pass) {
  for (const MakeEntry form : {row_entry, tile_entry, hub_entry, atomic_entry}) {
    const Entry entry = form(Fault::none);
    GpuExec exec;
    for (const Case& c : cases_of(entry.op)) {
      EXPECT_EQ(rejection<float>(entry, c, exec), "") << entry.name;
      EXPECT_EQ(rejection<double>(entry, c, exec), "") << entry.name;
    }
  }
}

/// Columns of 8, 16 and 32 bits, by a lane or more for each row, and by lanes with one to four rows each.
TEST(Sliced, EveryWidthAndSpread) {
  Registry known, registry;
  add_sliced(known);
  for (const Entry* entry : known.variants("05_cuda_csr/sliced:spread=1,4,6,7,8")) registry.add(*entry);
  for (const char* spec : {"gen:stencil:points=5,nx=17", "gen:fixed:rows=260,cols=9000,per_row=5",
                           "gen:fixed:rows=260,cols=2e5,per_row=3", "gen:powerlaw:n=300,edge_factor=4"})
    for_both_types([&]<class T>(T) {
      const auto a = std::make_shared<const Csr<T>>(generate<T>(spec));
      expect_good(registry, make_spmv_problem<T>(spec, a));
    });
}

}  // namespace
}  // namespace stages::cuda_mutants
