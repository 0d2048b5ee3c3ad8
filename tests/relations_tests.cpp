// What rows of one problem say of each other: speed-ups, and after how many products an entry pays.

#include <cmath>
#include <limits>

#include "common/harness/results.hpp"
#include "tests/expect.hpp"

namespace stages {
namespace {

ResultRow timed_row(const char* entry, double run, double prepare, const char* previous = "") {
  return {.entry = entry,
          .previous = previous,
          .vendor = std::string_view(entry).starts_with("vendor/"),
          .prepare = prepare,
          .run = summarize({run})};
}

TEST(Relations, StepsVendorLibrariesAndBreakEven) {
  Results results;
  results.rows = {timed_row("other/problem", 1e-9, 0),
                  timed_row("01/slow", 4, 0),
                  {.status = Status::skipped},
                  timed_row("02/fast", 1, 10, "01/slow"),
                  timed_row("03/worse", 5, 1, "02/fast"),
                  timed_row("vendor/a", 3, 10),
                  timed_row("vendor/b", 2, 10)};
  relate_rows(std::span(results.rows).subspan(1));
  const auto& rows = results.rows;
  EXPECT_EQ(rows[0].speedup_vendor, 0) << "belongs to another problem";
  EXPECT_EQ(rows[1].speedup_previous, 0) << "it changes none";
  EXPECT_EQ(rows[1].speedup_vendor, 0.5) << "over the faster library";
  EXPECT_EQ(rows[3].speedup_previous, 4) << "over the one that it changes";
  EXPECT_EQ(rows[3].speedup_vendor, 2);
  EXPECT_EQ(rows[4].speedup_previous, 0.2);
  EXPECT_EQ(rows[5].speedup_vendor, 0);
  // The cheapest for one product is 01/slow (4). 02/fast saves 3 a product and costs 10 more to prepare.
  EXPECT_EQ(rows[1].break_even, 0);
  EXPECT_EQ(rows[3].break_even, 4);
  EXPECT_TRUE(std::isinf(rows[4].break_even));
}

/// A row whose time and preparation are known to these shares.
ResultRow known_row(double run, double noise, double prepare, double prepare_noise) {
  ResultRow row = timed_row("01/a", run, prepare);
  row.run.noise = noise;
  row.prepare_noise = prepare_noise;
  return row;
}

TEST(Relations, NothingFollowsFromWhatIsWithinTheNoise) {
  const ResultRow cheap = known_row(4, 0.01, 0, 0);
  const auto related = [&](const ResultRow& other) {
    std::vector<ResultRow> rows = {cheap, other};
    relate_rows(rows);
    return rows[1];
  };
  struct Expected {
    ResultRow row;
    double break_even;
    bool known;
  };
  constexpr double kNever = std::numeric_limits<double>::infinity();
  for (const auto& [row, break_even, known] :
       {Expected{known_row(3, 0.005, 123.4, 0.001), 120, true},  // 123.4 to 5 %: two digits at most
        Expected{known_row(3, 0.01, 123.4, 0.2), 100, true},     // to a fifth: one
        Expected{known_row(3.95, 0.01, 123.4, 0), 2000, false},
        Expected{known_row(5, 0.01, 1, 0), kNever, true},
        Expected{known_row(4.05, 0.01, 1, 0), kNever, false},
        Expected{known_row(3, 0.01, 1.5, 1), 2, false}}) {
    const ResultRow out = related(row);
    EXPECT_EQ(out.break_even_known, known) << row.run.median << ' ' << row.prepare;
    EXPECT_EQ(known ? out.break_even : break_even, break_even);
  }
  const std::vector<ResultRow> rows = {cheap, known_row(4.05, 0.01, 1, 0), known_row(4.1, 0.01, 1, 0),
                                       known_row(3.99, INFINITY, 1, 0)};
  const auto names = [](const auto& best, const auto& all) {
    std::vector<std::ptrdiff_t> places;
    for (const ResultRow* const row : best) places.push_back(row - all.data());
    return places;
  };
  EXPECT_EQ(names(fastest(rows), rows), std::vector<std::ptrdiff_t>{3}) << "of which nothing is known";
  const auto known = std::span(rows).first(3);
  EXPECT_EQ(names(fastest(known), rows), (std::vector<std::ptrdiff_t>{0, 1}));
  std::vector<ResultRow> tied = {cheap, known_row(4.05, 0.01, 1, 0)};
  tied[1].previous = "01/a";
  relate_rows(tied);
  EXPECT_EQ(tied[1].speedup_previous, 1);
  // Of few samples, where none of one lies among the other's.
  for (const auto& [samples, speedup] :
       {std::pair{std::vector{3.9, 4.1}, 1.0}, {std::vector{2.0, 2.0}, 2.0}}) {
    tied[1].run = summarize(samples);
    relate_rows(tied);
    EXPECT_EQ(tied[1].speedup_previous, speedup);
  }
}

TEST(Relations, StructureReuseIsNotRanked) {
  Results results;
  results.rows = {timed_row("01/a", 4, 0), timed_row("02/reuse", 1, 0, "01/a"),
                  timed_row("03/b", 2, 0, "02/reuse")};
  results.rows[1].structure_reuse = true;
  relate_rows(results.rows);
  EXPECT_EQ(results.rows[1].speedup_previous, 0);
  EXPECT_EQ(results.rows[2].speedup_previous, 0);
}

}  // namespace
}  // namespace stages
