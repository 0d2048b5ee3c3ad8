// The battery itself: its cases are what they are called, and what may not pass, does not.

#include <algorithm>
#include <cstdlib>
#include <set>

#include "common/battery/matrices.hpp"
#include "common/matrix/convert.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/statistics.hpp"
#include "tests/battery.hpp"
#include "tests/expect.hpp"
#include "tests/mutants/spmv.hpp"

namespace stages {
namespace {

using battery::Pass;
using battery::Tally;

/// Refuses everything, not always with a number.
template <class T>
class Refuses final : public mutants::FaultySpmv<T> {
 public:
  using mutants::FaultySpmv<T>::FaultySpmv;
  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec& /*exec*/) {
    return problem.a->rows % 2 == 0 ? "takes 3 rows" : "does not like it";
  }
};

TEST(Battery, AnEntryThatRunsNothingFails) {
  Tally skipped_all;
  skipped_all.skips.assign(100, "case: takes 3 rows");
  EXPECT_TRUE(has(skipped_all.objection(8), "only 0 cases ran, of at least 8"));
  skipped_all.ran = 8;
  EXPECT_EQ(skipped_all.objection(8), "");
}

TEST(Battery, ARefusalNeedsANumber) {
  Exec exec;
  Registry entries;
  entries.add<Refuses>({.name = "x/refuses", .idea = "refuses"}, mutants::SpmvFault::none);
  const Tally tally = battery::run<float>(entries.entries().front(), exec, Pass::small);
  EXPECT_EQ(tally.ran, 0);
  EXPECT_GT(tally.skips.size(), tally.failures.size());
  ASSERT_FALSE(tally.failures.empty());
  EXPECT_TRUE(has(tally.failures.front(), "refuses without a number: 'does not like it'"));
}

TEST(Battery, NamesAreUniqueAndTheSmallHalfIsPartOfTheWhole) {
  for (const Op op : {Op::spmv, Op::spmm, Op::spgemm}) {
    std::set<std::string> names, small_names;
    for (const auto& c : battery::cases(op, Pass::full)) EXPECT_TRUE(names.insert(c.name).second) << c.name;
    for (const auto& c : battery::cases(op, Pass::small)) EXPECT_TRUE(small_names.insert(c.name).second);
    EXPECT_TRUE(std::ranges::includes(names, small_names));
    if (battery::least_cases() > 0) {
      EXPECT_GT(small_names.size(), names.size() / 4);
      EXPECT_LT(small_names.size(), names.size() * 3 / 4);
    }
  }
}

TEST(Battery, MatricesAreWhatTheirNamesSay) {
  using namespace matrices;
  for (const Op op : {Op::spmv, Op::spmm, Op::spgemm}) {
    for (const auto& c : battery::cases(op, Pass::full)) {
      EXPECT_NO_THROW(require_canonical(c.a(), c.name.c_str()));
      if (c.b) {
        EXPECT_NO_THROW(require_canonical(c.b(), c.name.c_str()));
      }
    }
  }
  const auto equal = equal_rows(40, 64, 32);
  for (Index i = 0; i < equal.rows; ++i) EXPECT_EQ(equal.row_nnz(i), 32);
  for (Index i = 0; i < 140; ++i) EXPECT_EQ(ramp(140, 200).row_nnz(i), i);
  const MatrixStatistics gap = statistics(gaps(64, 49));
  EXPECT_GE(gap.empty_rows, 22);
  EXPECT_GE(gap.empty_cols, 13);
  EXPECT_EQ(gaps(64, 49).row_nnz(0) + gaps(64, 49).row_nnz(63), 0);
  EXPECT_GT(gap.nnz, 100);
  EXPECT_GT(statistics(cancelled_coordinates(60, 60)).explicit_zeros, 50);
  EXPECT_GT(statistics(stored_zeros(50, 50)).explicit_zeros, 50);
  EXPECT_EQ(statistics(dense_row(200, 2000, 100)).max_row, 2000);
  EXPECT_LT(statistics(repeated_coordinates(60, 45)).nnz, 60 * 45);
  EXPECT_EQ(statistics(uneven(60, 45, 4)).nnz, statistics(repeated_coordinates(60, 45)).nnz);
  EXPECT_EQ(strided(3, 65537, 256).col_idx.back(), 65536);
}

TEST(Battery, UnknownSizesAreRefused) {
  const char* const before = std::getenv("STAGES_BATTERY");
  const std::string kept = before == nullptr ? "" : before;
  setenv("STAGES_BATTERY", "tiny", 1);
  EXPECT_THROW(battery::pass_from_environment(), Error);
  setenv("STAGES_BATTERY", "small", 1);
  EXPECT_EQ(battery::pass_from_environment(), Pass::small);
  setenv("STAGES_BATTERY", kept.c_str(), 1);
}

}  // namespace
}  // namespace stages
