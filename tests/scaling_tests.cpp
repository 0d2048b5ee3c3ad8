// Results of several numbers of ranks: read back, related to serial, shown; and specs that grow with the
// ranks.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/harness/results.hpp"
#include "common/matrix/error.hpp"

namespace stages {
namespace {

ResultRow row_of(const char* entry, double seconds, int ranks) {
  ResultRow row;
  row.problem = {.matrix = "m", .op = Op::spgemm, .type = "f64", .rows = 4, .cols = 4, .nnz = 9};
  row.entry = entry;
  row.run = summarize(std::vector<double>(7, seconds));
  row.ranks = ranks;
  row.mpi = std::string_view(entry).starts_with("02_");
  row.checked = true;
  row.check.rows = row.check.rows_checked = 4;
  row.phases = {{"compute", seconds / 2}, {"gather", seconds / 4}};
  row.metrics = {
      {"compute_seconds", seconds / 2, "s"}, {"bytes_moved", 1e6, "B"}, {"lost", std::nan(""), ""}};
  return row;
}

Results sweep_of_three() {
  Results results;
  results.context = {{"cpu", "some"}};
  results.rows = {row_of("01_cpu_serial/slow", 8.0, 1), row_of("01_cpu_serial/fast", 4.0, 1),
                  row_of("vendor/faster", 1.0, 1), row_of("02_mpi/distributed", 1.0, 8)};
  return results;
}

TEST(Scaling, SpeedUpIsOverTheFastestEntryOfStageOne) {
  Results results = sweep_of_three();
  ResultRow other = row_of("02_mpi/distributed", 1.0, 8);
  other.problem.options = "C distributed";
  results.rows.push_back(other);
  relate_to_serial(results);
  EXPECT_EQ(results.rows[3].speedup_serial, 4.0);
  EXPECT_EQ(results.rows[1].speedup_serial, 0.0) << "serial entries are not compared with themselves";
  EXPECT_EQ(results.rows[4].speedup_serial, 0.0) << "another problem";
}

TEST(Scaling, SeveralGpusAreComparedWithOne) {
  Results results = sweep_of_three();
  results.rows.push_back(row_of("08_spgemm_multigpu/one", 0.5, 1));
  results.rows.push_back(row_of("08_spgemm_multigpu/several", 0.25, 8));
  results.rows[4].mpi = false;
  results.rows[5].mpi = true;
  relate_to_serial(results);
  EXPECT_EQ(results.rows[5].speedup_serial, 2.0) << "over one GPU, not over a core";
  EXPECT_EQ(results.rows[3].speedup_serial, 4.0) << "a step without such an entry: over stage 01";
}

TEST(Scaling, ResultsComeBackFromTheirJson) {
  Results results = sweep_of_three();
  ResultRow wrong = row_of("02_mpi/balanced", 1, 2);
  wrong.status = Status::wrong;
  wrong.reason = wrong.check.failure = "element (0, 0) is NaN";
  wrong.run = {};
  results.rows.push_back(wrong);
  relate_to_serial(results);
  const nlohmann::json text = to_json(results);
  const Results back = results_from_json(nlohmann::json::parse(text.dump()));
  // What is written again must be what was read: phases come back by name, everything else as it was.
  EXPECT_EQ(to_json(back), text);
  EXPECT_EQ(back.rows.at(3).speedup_serial, 4.0);
  EXPECT_EQ(back.count(Status::wrong), 1);
  EXPECT_THROW(results_from_json(nlohmann::json::parse(R"({"context": {}, "results": [{}]})")),
               nlohmann::json::exception);
}

TEST(Scaling, WhatItDoesNotKnowIsRefusedAndNeverGood) {
  const nlohmann::json sound = to_json(sweep_of_three());
  const auto expect_refused = [&](const std::string& text, auto&& spoil) {
    nlohmann::json spoilt = sound;
    spoil(spoilt["results"][0]);
    try {
      results_from_json(spoilt);
      ADD_FAILURE() << "was read: " << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  expect_refused("the status 'doubtful'", [](auto& row) { row["status"] = "doubtful"; });
  expect_refused("the status ''", [](auto& row) { row["status"] = ""; });
  expect_refused("the operation 'spxx'", [](auto& row) { row["problem"]["operation"] = "spxx"; });
}

TEST(Scaling, TheTableHoldsRowsOnRanksOnly) {
  Results results = sweep_of_three();
  relate_to_serial(results);
  const std::string table = to_scaling_table(results, false);
  EXPECT_NE(table.find("02_mpi/distributed"), std::string::npos);
  EXPECT_EQ(table.find("01_cpu_serial"), std::string::npos);
  EXPECT_NE(table.find("4.00x"), std::string::npos) << table;
  EXPECT_NE(table.find("50%"), std::string::npos) << table;  // 4x on 8 ranks
  EXPECT_EQ(table.find("nan"), std::string::npos) << table;
  results.rows.pop_back();
  EXPECT_EQ(to_scaling_table(results, false), "");
}

TEST(Scaling, SizesWithXRGrowWithTheRanks) {
  bool scaled = false;
  EXPECT_EQ(scaled_spec("gen:uniform:rows=1e5xR,cols=300xR,per_row=8", 4, scaled),
            "gen:uniform:rows=400000,cols=1200,per_row=8");
  EXPECT_TRUE(scaled);
  scaled = false;
  EXPECT_EQ(scaled_spec("dir/m4xR.mtx", 4, scaled), "dir/m4xR.mtx");
  EXPECT_EQ(scaled_spec("gen:rmat:scale=12,edge_factor=8", 4, scaled), "gen:rmat:scale=12,edge_factor=8");
  EXPECT_FALSE(scaled);
}

}  // namespace
}  // namespace stages
