// Every entry of the registry on every case of its operation, in float and double; and on the files that
// STAGES_DATA names. The battery itself is in cases_tests.cpp.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <set>

#include "common/battery/matrices.hpp"
#include "common/cli/machines/devices.hpp"
#include "common/harness/entries.hpp"
#include "common/harness/runner.hpp"
#include "common/matrix/convert.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/matrix_market.hpp"
#include "common/matrix/statistics.hpp"
#include "tests/battery.hpp"
#include "tests/expect.hpp"
#include "tests/in_run.hpp"
#include "tests/mutants/spmv.hpp"
#include "tests/reached.hpp"

namespace stages {
namespace {

using battery::Limits;
using battery::Pass;
using battery::Tally;

const Registry& registry() {
  static const Registry all = [] {
    Registry entries;
    add_entries(entries);
    return entries;
  }();
  return all;
}

const Machine& machine() {
  static const Devices devices;
  return devices.machine();
}

/// Whether this program can run it at all.
bool runs_here(const Entry& entry) {
  return !entry.needs.mpi && (!entry.needs.gpu || machine().gpu != nullptr);
}

struct EntryAndType {
  const Entry* entry;
  bool single_precision;
};

/// Why no problem at all can run here, where every one is skipped for one and the same reason,
/// which names the compute capability that the entry needs, or (of doubles) that it takes floats; empty
/// otherwise.
std::string ruled_out(const Tally& tally, bool single_precision) {
  const auto reason = [](const std::string& skip) { return skip.substr(skip.find(": ") + 2); };
  if (tally.ran > 0 || !tally.failures.empty() || tally.skips.empty()) return {};
  const std::string first = reason(tally.skips.front());
  const auto is_first = [&](const std::string& skip) { return reason(skip) == first; };
  const bool one = std::all_of(tally.skips.begin(), tally.skips.end(), is_first);
  const bool of_type = !single_precision && first.starts_with("takes values of 32 bits");
  return one && (of_type || first.starts_with("needs compute capability ")) ? first : std::string();
}

/// How many cases each entry ran when that was recorded, by its name, type and size: to refuse more than then
/// is a fault, too. On the executor's own device, and but for vendor libraries, which differ between places.
void expect_as_many_as_recorded(const std::string& who, Pass pass, int ran) {
  if (std::getenv("STAGES_DEVICE") != nullptr || battery::least_cases() == 0 || is_half(pass)) return;
  static const std::map<std::string, int> recorded = [] {
    std::map<std::string, int> all;
    std::ifstream file(STAGES_CASES_RUN);
    int count = 0;
    for (std::string name, type, of; file >> name >> type >> of >> count;)
      all[fmt::format("{} {} {}", name, type, of)] = count;
    return all;
  }();
  const std::string key = who + (pass == Pass::full ? " full" : " sweep");
  const auto found = recorded.find(key);
  EXPECT_TRUE(found != recorded.end() && found->second == ran)
      << "cases run, for data/cases_run.txt: " << key << ' ' << ran;
}

class EveryEntry : public testing::TestWithParam<EntryAndType> {};

TEST_P(EveryEntry, PassesTheBattery) {
  const Entry& entry = *GetParam().entry;
  if (entry.needs.gpu && machine().gpu == nullptr) GTEST_SKIP() << "needs a GPU, and " << machine().no_gpu;
  if (entry.needs.mpi) GTEST_SKIP() << "tests/mpi runs it, on 1 to 7 ranks";
  Exec& exec = machine().of(entry);
  const Pass pass = battery::pass_from_environment();
  const std::string who = fmt::format("{} {}", entry.name, GetParam().single_precision ? "f32" : "f64");
  const auto go_on = [&](const battery::Case& c, const Tally& so_far) {
    note_reached(who, c.name);
    return so_far.failures.empty() || !testing::GTEST_FLAG(fail_fast);
  };
  const Tally tally = GetParam().single_precision ? battery::run<float>(entry, exec, pass, {}, {}, go_on)
                                                  : battery::run<double>(entry, exec, pass, {}, {}, go_on);
  if (const std::string reason = ruled_out(tally, GetParam().single_precision); !reason.empty())
    GTEST_SKIP() << reason;
  EXPECT_EQ(tally.objection(battery::least_cases()), "");
  if (!entry.is_vendor() && (!entry.needs.gpu || exec.simulated()))
    expect_as_many_as_recorded(who, pass, tally.ran);
  for (const std::string& skip : tally.skips) std::cout << "  skipped " << skip << '\n';
}

/// What is wrong with the product where every second number of x or B is 0, which random ones never are; empty:
/// nothing, or the entry refuses the problem.
template <class Problem>
std::string with_zeros(const Entry& entry, const Problem& wanted) {
  Exec& exec = machine().of(entry);
  const Problem problem = with_values(wanted, ValueKind::integer, 1);
  if (entry.on<Problem>().look(problem, exec).refuse(problem, exec)) return {};
  auto operands = make_operands(problem, ValueKind::integer, 2);
  const auto clear_half = [](auto& values) {
    for (std::size_t k = 0; k < values.size(); k += 2) values[k] = 0;
  };
  if constexpr (Problem::kOp == Op::spmv) clear_half(operands.x.data);
  if constexpr (Problem::kOp == Op::spmm) clear_half(operands.b.data);
  const auto plan = entry.on<Problem>().prepare(problem, exec);
  plan->load(operands);
  plan->reset();
  plan->run();
  exec.synchronize();
  return verify(problem, operands, plan->fetch(), ValueKind::integer, entry.claims).failure;
}

template <class T>
std::string with_zeros(const Entry& entry) {
  const auto a = share<T>(matrices::equal_rows(64, 64, 13));
  if (entry.op == Op::spmm)
    return with_zeros(entry, make_spmm_problem<T>({.name = "zeros in B", .a = a, .n_cols = 33}));
  const std::string single = with_zeros(entry, make_spmv_problem<T>("zeros in x", a));
  return single.empty() ? with_zeros(entry, make_spmv_problem<T>("zeros in x", a, Mode::stream, 3)) : single;
}

TEST_P(EveryEntry, TakesZerosOfADenseOperandForNumbers) {
  const Entry& entry = *GetParam().entry;
  if (!runs_here(entry)) GTEST_SKIP() << "cannot run here";
  if (entry.op == Op::spgemm) GTEST_SKIP() << "the battery has stored zeros";
  EXPECT_EQ(GetParam().single_precision ? with_zeros<float>(entry) : with_zeros<double>(entry), "");
}

TEST(Entries, ChangeOneThatThereIs) {
  for (const Entry& entry : registry().entries()) {
    const std::string_view step = std::string_view(entry.previous).substr(0, entry.previous.find('/'));
    const auto is_of_it = [&](const Entry& other) { return other.stage() == step; };
    if (std::ranges::none_of(registry().entries(), is_of_it)) continue;  // a step that this build is without
    EXPECT_EQ(registry().find(entry.previous).op, entry.op) << entry.name;
  }
}

std::vector<EntryAndType> entries_and_types() {
  std::vector<EntryAndType> all;
  for (const Entry& entry : registry().entries()) {
    all.push_back({&entry, true});
    all.push_back({&entry, false});
  }
  return all;
}

std::string name_of(const testing::TestParamInfo<EntryAndType>& info) {
  std::string name = info.param.entry->name + (info.param.single_precision ? "_f32" : "_f64");
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

void PrintTo(const EntryAndType& p, std::ostream* out) {
  *out << p.entry->name << (p.single_precision ? " f32" : " f64");
}

INSTANTIATE_TEST_SUITE_P(Battery, EveryEntry, testing::ValuesIn(entries_and_types()), name_of);

/// The value of that metric of the entry's plan on the first case that it takes; NaN: there is none.
template <class Problem>
double metric_on_a_case(const Entry& entry, std::string_view name) {
  Exec& exec = machine().of(entry);
  for (const battery::Case& c : battery::cases(entry.op, Pass::small)) {
    const auto problem = battery::make_problem<Problem>(c);
    if (entry.on<Problem>().look(problem, exec).refuse(problem, exec)) continue;
    for (const Metric& metric : entry.on<Problem>().prepare(problem, exec)->metrics())
      if (metric.name == name) return metric.value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

/// On the cases with few columns: what another value changes does not depend on how many there are.
template <class Problem>
void expect_values_work(const Entry& entry) {
  constexpr Index kMostColumns = 19;
  for (const Parameter& parameter : entry.parameters) {
    for (const Index value :
         std::set{parameter.least, std::clamp(Index{7}, parameter.least, parameter.most), parameter.most}) {
      const Entry other = entry.with({{parameter.name, value}});
      EXPECT_EQ(metric_on_a_case<Problem>(other, parameter.name), value) << other.name;
      Tally tally;
      for (const battery::Case& c : battery::cases(entry.op, Pass::small)) {
        if (c.n_cols <= kMostColumns)
          check_on(other, battery::make_problem<Problem>(c), machine().of(entry), {}, {}, tally);
      }
      EXPECT_EQ(tally.objection(battery::least_cases()), "") << other.name;
    }
  }
}

TEST(Parameters, LeastMostAndOddValuesPassTheBatteryAndAreTold) {
  int with_parameters = 0;
  for (const Entry& entry : registry().entries()) {
    if (entry.parameters.empty() || !runs_here(entry)) continue;
    ++with_parameters;
    if (entry.op == Op::spmv) expect_values_work<SpmvProblem<float>>(entry);
    if (entry.op == Op::spmm) expect_values_work<SpmmProblem<float>>(entry);
    if (entry.op == Op::spgemm) expect_values_work<SpgemmProblem<float>>(entry);
  }
  EXPECT_TRUE(with_parameters > 0 || machine().gpu == nullptr);
}

TEST(Chains, BeginAgainWithRowsThatHadBecomeNarrowOrWide) {
  for (const Entry& entry : registry().entries()) {
    if (!entry.chains || !runs_here(entry)) continue;
    EXPECT_EQ(battery::check_chains(entry, machine().of(entry)), "") << entry.name;
  }
}

/// Problems of the operation, one kind each: an entry may be for one of them. All rows are of one length, which
/// some entries need, and few, for those that have all of them at work at once.
template <class Problem>
std::vector<Problem> problems_to_count() {
  const auto a = generated<float>("gen:fixed:n=240,per_row=24");
  if constexpr (Problem::kOp == Op::spmv) {
    return {make_spmv_problem<float>("single", a), make_spmv_problem<float>("stream", a, Mode::stream, 8),
            make_spmv_problem<float>("chain", a, Mode::chain, 3)};
  } else if constexpr (Problem::kOp == Op::spmm) {
    return {make_spmm_problem<float>({.name = "spmm", .a = a, .n_cols = 32})};
  } else {
    return {make_spgemm_problem<float>("spgemm", a, a)};
  }
}

/// On the first of them that the entry takes.
template <class Problem>
std::string counted_on_one(const Entry& entry) {
  Exec& exec = machine().of(entry);
  std::string refusals;
  for (const Problem& problem : problems_to_count<Problem>()) {
    const auto refusal = entry.on<Problem>().look(problem, exec).refuse(problem, exec);
    if (!refusal) return not_counted_in_run(entry, problem, exec);
    refusals += " " + *refusal;
  }
  return "takes none of the problems:" + refusals;
}

/// What the check cannot see of entries that have copies of their operands on a GPU (docs/checking.md).
TEST(InRun, KernelsReadAndWriteThereWhatAProductNeeds) {
  if (!judge::can_count())
    GTEST_SKIP() << "kernels are counted on the executor, in a build by g++ without sanitizers";
  for (const Entry& entry : registry().entries()) {
    if (!entry.needs.gpu || entry.needs.mpi) continue;
    std::string why;
    if (entry.op == Op::spmv) why = counted_on_one<SpmvProblem<float>>(entry);
    if (entry.op == Op::spmm) why = counted_on_one<SpmmProblem<float>>(entry);
    if (entry.op == Op::spgemm) why = counted_on_one<SpgemmProblem<float>>(entry);
    EXPECT_EQ(why, "") << entry.name;
  }
}

/// And of vendor libraries on the host, which have formats of their own.
TEST(InRun, LibrariesTakeTheirTimeThere) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "under AddressSanitizer our code takes longer, and theirs does not";
#endif
  for (const Entry& entry : registry().entries()) {
    if (!entry.is_vendor() || entry.needs.gpu || entry.needs.mpi) continue;
    EXPECT_EQ(not_timed_in_run(entry, machine().of(entry)), "") << entry.name;
  }
}

/// Files are many and large, so each is multiplied in one type of value (the files in turn), what would take
/// long is left out, and of large results a sample of rows is compared, beside the integer sums of all rows.
constexpr Limits kFileLimits{.work = 4e6, .memory = 1e9};
constexpr Limits kSimulatedFileLimits{.work = 1e5, .memory = 1e9};  ///< it takes microseconds a step
constexpr CheckOptions kFileCheck{.budget = 100'000};

template <class Problem>
int check_everything_on(const Problem& problem, const Limits& simulated_limits = kSimulatedFileLimits,
                        const CheckOptions& options = kFileCheck) {
  int ran = 0;
  for (const Entry& entry : registry().entries()) {
    if (entry.op != Problem::kOp || !runs_here(entry)) continue;
    Exec& exec = machine().of(entry);
    Tally tally;
    check_on(entry, problem, exec, exec.simulated() ? simulated_limits : kFileLimits, options, tally);
    EXPECT_EQ(tally.objection(0), "") << entry.name << " on " << problem.name;
    for (const std::string& skip : tally.skips) std::cout << "  " << entry.name << ": " << skip << '\n';
    ran += tally.ran;
  }
  return ran;
}

TEST(LargeSizes, MoreThanAGridHasBlocksInItsSecondDimension) {
  if (machine().gpu == nullptr || machine().gpu->simulated()) GTEST_SKIP() << "takes a GPU, or minutes";
  const CheckOptions quick{.quick = true};
  const auto two_rows = share<float>(matrices::with_row_lengths(std::vector<Index>{2, 0}));
  for (const Layout layout : {Layout::row_major, Layout::col_major}) {
    SpmmProblem<float> wide{
        .name = "strips of 64 columns", .a = two_rows, .n_cols = 65'600 * 64, .b_layout = layout};
    check_everything_on(make_spmm_problem(wide), {}, quick);
  }
  const auto one = share<float>(matrices::identity(1));
  for (const Mode mode : {Mode::stream, Mode::chain})
    check_everything_on(make_spmv_problem("products", one, mode, 65'600), {}, quick);
}

/// All operations on A: A x, A B with 8 columns, and A A or the cheaper of A A^T and A^T A.
template <class T>
void check_file(const std::string& path) {
  const auto a = std::make_shared<const Csr<T>>(read_matrix_market<T>(path));
  const std::string name = std::filesystem::path(path).filename().string();
  std::cout << name << ": " << a->rows << " x " << a->cols << ", " << a->nnz() << " non-zeros, "
            << (std::is_same_v<T, float> ? "f32" : "f64") << std::endl;
  EXPECT_GT(check_everything_on(make_spmv_problem(name, a)), 0) << name << ": no SpMV entry ran";
  SpmmProblem<T> spmm{.name = name, .a = a, .n_cols = 8};
  check_everything_on(make_spmm_problem(spmm));
  if (a->rows == a->cols) {
    check_everything_on(make_spgemm_problem(name, a, a));
    return;
  }
  const auto at = std::make_shared<const Csr<T>>(transpose(*a));
  const bool transpose_first = spgemm_products(*at, *a) < spgemm_products(*a, *at);
  check_everything_on(transpose_first ? make_spgemm_problem(name, at, a) : make_spgemm_problem(name, a, at));
}

TEST(RealMatrices, EveryOperationOnEveryFile) {
  const auto files = battery::data_files();
  if (files.empty()) GTEST_SKIP() << "STAGES_DATA names no directory of .mtx files";
  const bool small = battery::pass_from_environment() == Pass::small;
  int read = 0;
  for (std::size_t k = 0; k < files.size(); k += small ? 5 : 1) {
    try {
      k % 2 == 0 ? check_file<float>(files[k]) : check_file<double>(files[k]);
      ++read;
    } catch (const Error& error) {
      // Complex and Hermitian files are refused by name; nothing else may be.
      const std::string why = error.what();
      EXPECT_TRUE(has(why, "complex") || has(why, "ermitian")) << why;
      std::cout << why << '\n';
    }
  }
  EXPECT_GT(read, 0) << "no file could be read";
}

TEST(Battery, OnlyADeviceOrATypeRulesOutAnEntry) {
  const std::string reason = "needs compute capability 9.0 or later; this device has 8.0";
  Tally tally;
  tally.skips = {"a: " + reason, "b: " + reason};
  EXPECT_EQ(ruled_out(tally, true), reason);
  tally.skips.push_back("c: takes 3 rows");
  EXPECT_EQ(ruled_out(tally, true), "") << "another reason beside it";
  tally.skips = {"a: takes 3 rows", "b: takes 3 rows"};
  EXPECT_EQ(ruled_out(tally, true), "") << "no reason of the device";
  tally.skips = {"a: " + reason};
  tally.ran = 1;
  EXPECT_EQ(ruled_out(tally, true), "") << "something ran";
  const std::string of_type = "takes values of 32 bits, which TF32 splits; these have 64";
  tally.skips = {"a: " + of_type, "b: " + of_type};
  tally.ran = 0;
  EXPECT_EQ(ruled_out(tally, false), of_type);
  EXPECT_EQ(ruled_out(tally, true), "") << "these are such values";
}

TEST(Battery, LimitsSkipWithTheirNumber) {
  Exec exec;
  Tally tally;
  const auto a = share<float>(matrices::dense(10, 10));
  const auto spmv = std::ranges::find(registry().entries(), Op::spmv, &Entry::op);
  check_on(*spmv, make_spmv_problem("m", a), exec, Limits{.work = 50}, {}, tally);
  check_on(*spmv, make_spmv_problem("m", a), exec, Limits{.work = 1e9, .memory = 10}, {}, tally);
  EXPECT_EQ(tally.ran, 0);
  ASSERT_EQ(tally.skips.size(), 2U);
  EXPECT_EQ(tally.skips[0], "m: 100 steps, the limit is 50");
  EXPECT_TRUE(has(tally.skips[1], "bytes, the limit is 10"));
}

}  // namespace
}  // namespace stages
