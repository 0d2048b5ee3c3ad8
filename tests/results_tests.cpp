// Results as JSON, CSV and table: complete, readable by others, and honest about what is not known. Of several
// numbers of ranks: read back, related to serial, shown; and specs that grow with the ranks.

#include "common/harness/results.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/expect.hpp"

namespace stages {
namespace {

using nlohmann::json;

Results sample() {
  Results results;
  results.context = {{"command", "stages run \"x\""}, {"cpu", "a CPU"}};
  ResultRow row;
  row.problem = {.matrix = "dir, with comma/m \"q\".mtx",
                 .options = "N = 32",
                 .op = Op::spmm,
                 .type = "f32",
                 .rows = 10,
                 .cols = 20,
                 .nnz = 30,
                 .result_cols = 32,
                 .n_vectors = 1,
                 .multiplications = 960};
  row.entry = "01_cpu_serial/csr";
  row.idea = "row by row";
  row.checked = true;
  row.check = {.rows_checked = 4, .rows = 10, .worst = 0.25, .sums = 20, .not_judged = 3};
  row.prepare = 0.5;
  row.load = 0.25;
  row.fetch = 0.125;
  row.run = summarize({1e-3, 2e-3, 3e-3, 4e-3, 5e-3, 6e-3, 7e-3});
  row.phases = {{"symbolic", 1e-3}, {"numeric", 3e-3}};
  row.cost = {.operations = 1920, .model_bytes = 4096, .memory = 100, .work = 960};
  row.gflops = 1.5;
  row.bandwidth_share = 0.5;
  row.speedup_previous = 2;
  row.break_even = std::numeric_limits<double>::infinity();
  row.metrics = {{"registers", 40, "registers"}, {"spilled", std::nan(""), "B"}};
  row.note = "a note";
  results.rows.push_back(row);
  ResultRow wrong = row;
  wrong.status = Status::wrong;
  wrong.reason = "element (0, 0) is NaN";
  wrong.run = {};
  wrong.check.failure = wrong.reason;
  wrong.note.clear();
  results.rows.push_back(wrong);
  results.rows.push_back({.problem = row.problem,
                          .entry = "01_cpu_serial/dense",
                          .status = Status::skipped,
                          .reason = "needs 4 GB"});
  return results;
}

TEST(Json, HoldsEverythingAndNullForWhatIsUnknown) {
  const json out = json::parse(to_json(sample()).dump());
  ASSERT_EQ(out["results"].size(), 3U);
  const std::pair<const char*, json> expected[] = {
      {"/schema_version", kSchemaVersion},
      {"/context/command", "stages run \"x\""},
      {"/results/0/problem/matrix", "dir, with comma/m \"q\".mtx"},
      {"/results/0/problem/operation", "spmm"},
      {"/results/0/problem/nnz", 30},
      {"/results/0/entry", "01_cpu_serial/csr"},
      {"/results/0/status", "good"},
      {"/results/0/check/passed", true},
      {"/results/0/check/sampled", true},
      {"/results/0/check/rows_checked", 4},
      {"/results/0/check/sums", 20},
      {"/results/0/check/sums_not_judged", 3},
      {"/results/0/seconds/prepare", 0.5},
      {"/results/0/seconds/run/median", 4e-3},
      {"/results/0/seconds/run/samples", sample().rows[0].run.samples},
      {"/results/0/seconds/phases/numeric", 3e-3},
      {"/results/0/gflops", 1.5},
      {"/results/0/metrics/registers/value", 40},
      {"/results/0/break_even_products", nullptr},
      {"/results/0/metrics/spilled/value", nullptr},
      {"/results/0/speedup_peer", nullptr},
      {"/results/0/speedup_previous", 2},
      {"/results/1/check/passed", false},
      {"/results/1/reason", "element (0, 0) is NaN"},
      {"/results/2/status", "skipped"},
  };
  for (const auto& [place, value] : expected) EXPECT_EQ(out.at(json::json_pointer(place)), value) << place;
  // Rows without times have none, and one that was never checked no check.
  for (const char* place : {"/results/1/seconds", "/results/1/gflops", "/results/2/check"})
    EXPECT_FALSE(out.contains(json::json_pointer(place))) << place;
}

TEST(Json, ProcessesOfTheSameAreOneRow) {
  const auto of_process = [](std::vector<double> medians) {
    Results results = sample();
    results.rows.resize(1);
    for (std::size_t k = 1; k < medians.size(); ++k) {
      results.rows.push_back(results.rows.front());
      results.rows.back().entry += std::to_string(k);
    }
    for (std::size_t k = 0; k < medians.size(); ++k) {
      results.rows[k].run = summarize(std::vector<double>(7, medians[k]));
      results.rows[k].busy = summarize(std::vector<double>(6, medians[k] / 2));
      results.rows[k].prepare = medians[k];
    }
    results.rows[2].problem.op = Op::spgemm;  // of another kind, and far less steady
    return results;
  };
  Results all = of_process({1.00, 2, 3});
  for (const auto& medians : {std::vector{1.02, 2.02, 4.0}, {1.01, 1.98, 3.5}})
    all = put_together(results_from_json(json::parse(to_json(all).dump())), of_process(medians));
  ASSERT_EQ(all.rows.size(), 3U);
  const Summary& run = all.rows[0].run;
  EXPECT_EQ(run.processes, (std::vector{1.00, 1.02, 1.01}));
  EXPECT_EQ(run.samples.size(), 21U);
  EXPECT_DOUBLE_EQ(run.median, 1.01);
  EXPECT_EQ(all.rows[0].busy.processes, (std::vector{0.5, 0.51, 0.505}));
  EXPECT_DOUBLE_EQ(all.rows[0].gflops, 1.5 / 1.01);
  // Both rows of the kind are 1 % apart: with Student's t of 6 that is about 3 %.
  EXPECT_NEAR(run.noise, 0.028, 0.001);
  EXPECT_GT(all.rows[2].run.noise, 0.2);
  EXPECT_TRUE(all.rows[2].is_unsteady());
  EXPECT_FALSE(all.rows[0].is_unsteady());
  EXPECT_GT(all.rows[2].prepare_noise, 0.1);
  Results wrong = of_process({1, 2, 3});
  wrong.rows[0].status = Status::wrong;
  wrong.rows[0].run = {};
  all = put_together(all, wrong);
  EXPECT_EQ(all.rows.size(), 4U) << "what is wrong now stands beside";
  EXPECT_EQ(put_together(all, wrong).rows.size(), 4U) << "once";
}

TEST(Table, SaysWhatIsBusyTiedAndUnsteady) {
  Results results = sample();
  results.rows.resize(1);
  ResultRow& row = results.rows[0];
  row.run.noise = 0.03;
  EXPECT_EQ(to_table(results, false).find("busy"), std::string::npos) << "not known";
  row.busy = summarize({1e-3});
  for (const double median : {4.1e-3, 4.3e-3}) {
    results.rows.push_back(results.rows[0]);
    results.rows.back().run.median = median;
  }
  results.rows[2].run.noise = 0.06;
  const std::string table = to_table(results, false);
  const auto lines_with = [&](const std::string& word) {
    int count = 0;
    for (std::size_t at = table.find(word); at != std::string::npos; at = table.find(word, at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(lines_with("  busy"), 1) << table;
  EXPECT_EQ(lines_with("  25%  "), 1) << table;
  EXPECT_EQ(lines_with("<- fastest, with others"), 2) << table;  // 4.3 is 0.3 apart, 0.28 are known
  EXPECT_EQ(lines_with("unsteady"), 1) << table;
}

TEST(Json, AsTextHasALineForEachRowAndFiveDigits) {
  Results results = sample();
  results.rows[0].gflops = 1.23456789;
  results.rows[0].cost.model_bytes = 123456789;
  results.rows[1].entry = "\xff";
  const std::string text = json_lines(to_json(results));
  const json out = json::parse(text);
  EXPECT_EQ(out["results"][0]["gflops"], 1.2346);
  EXPECT_EQ(out["results"][0]["model_bytes"], 123456789);
  EXPECT_TRUE(out["results"][0]["break_even_products"].is_null());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3 + 3) << text;  // rows; context, "results", version
  EXPECT_EQ(results_from_json(out).rows.size(), 3U);
  EXPECT_EQ(json::parse(json_lines(to_json(Results{})))["results"], json::array());
}

/// Splits a CSV text by RFC 4180.
std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> lines(1, {""});
  bool quoted = false;
  for (std::size_t k = 0; k < text.size(); ++k) {
    const char c = text[k];
    if (quoted && c == '"' && k + 1 < text.size() && text[k + 1] == '"') {
      lines.back().back() += text[++k];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      lines.back().emplace_back();
    } else if (c == '\n' && !quoted) {
      lines.push_back({""});
    } else {
      lines.back().back() += c;
    }
  }
  lines.pop_back();
  return lines;
}

TEST(Csv, EveryLineHasEveryField) {
  Results results = sample();
  results.context.emplace_back("part", "the run was ended by SIGINT");
  const auto lines = parse_csv(to_csv(results));
  ASSERT_EQ(lines.size(), 5U);
  for (const auto& line : lines) EXPECT_EQ(line.size(), lines[0].size());
  const auto field = [&](std::size_t line, const std::string& name) {
    const auto at = std::find(lines[0].begin(), lines[0].end(), name);
    EXPECT_NE(at, lines[0].end()) << name;
    return lines[line][static_cast<std::size_t>(at - lines[0].begin())];
  };
  EXPECT_EQ(field(1, "matrix"), "dir, with comma/m \"q\".mtx");
  EXPECT_EQ(field(1, "run_median_s"), "0.004");
  EXPECT_EQ(field(1, "samples"), "7");
  EXPECT_EQ(field(1, "speedup_peer"), "");
  EXPECT_EQ(field(2, "status"), "wrong");
  EXPECT_EQ(field(2, "run_median_s"), "");
  EXPECT_EQ(field(2, "rows_checked"), "4");
  EXPECT_EQ(field(3, "reason"), "needs 4 GB");
  EXPECT_EQ(field(4, "entry"), "");
  EXPECT_EQ(field(4, "status"), "skipped");
  EXPECT_EQ(field(4, "reason"), "the run was ended by SIGINT; what is not above was not reached");
}

TEST(Csv, NoFieldIsAFormula) {
  Results results = sample();
  for (const char* const start : {"=", "+", "-", "@", "\t", "\r", "\n"}) {
    results.rows[0].problem.matrix = std::string(start) + "HYPERLINK(\"http://a.b\",1).mtx";
    EXPECT_EQ(parse_csv(to_csv(results))[1][0], "'" + printable(results.rows[0].problem.matrix));
  }
  results.rows[0].problem.matrix = "a=b-c.mtx";
  EXPECT_EQ(parse_csv(to_csv(results))[1][0], "a=b-c.mtx");
  results.rows[0].reason = "=1+1";
  EXPECT_EQ(parse_csv(to_csv(results))[1][9], "'=1+1");
}

TEST(Table, SaysWhatAPersonAsks) {
  const std::string table = to_table(sample(), false);
  EXPECT_TRUE(has_all(
      table, {"01_cpu_serial/csr", "4.00 ms", "N = 32", "WRONG: element (0, 0) is NaN", "skipped: needs 4 GB",
              "a note", "4 of 10 rows checked in full, 3 of 20 sums beyond the type's range: not judged",
              "never", "2.00x", "1 good, 1 wrong, 0 failed, 1 skipped"}));
  EXPECT_FALSE(has(table, "\033")) << "colours although none were asked for";
  EXPECT_TRUE(has(to_table(sample(), true), "\033"));
}

TEST(Table, WhereARowIsFarAboveTheCopyThatIsMeasuredAgainAndThenItWasInACache) {
  class : public Exec {
    double measure_copy_bandwidth() override { return ++copies == 1 ? 1e9 : 4e9; }  // the first was disturbed
    int copies = 0;
  } exec;
  Results results = sample();
  results.context = {{"copy_bandwidth_bytes_per_second", "1e+09"}};
  results.rows[0].copy_bandwidth = exec.copy_bandwidth();
  for (const auto& [share, then, shown] :
       {std::tuple{1.1, 1.1, "110%"}, {2.0, 0.5, "50%"}, {4.26, 4.26, "in cache"}}) {
    results.rows[0].bandwidth_share = share;
    measure_copy_again(exec, results);
    EXPECT_EQ(results.rows[0].bandwidth_share, then);
    EXPECT_TRUE(has(to_table(results, false), shown));
  }
  EXPECT_EQ(results.context[0].second, "4e+09");
}

TEST(Text, IsSafeOnTerminalsAndInMarkup) {
  const char* const shown_as_it_is = "\xc3\xa9\xc2\xa0\xe2\x80\xa9\xf0\x9f\x98\x80";
  for (const auto& [text, shown] : {std::pair{shown_as_it_is, shown_as_it_is},
                                    {"\x1b[31m\n", "\\x1b[31m\\x0a"},
                                    {"\xc2\x9b", "\\xc2\\x9b"},
                                    {"\xe2\x80\xae", "\\xe2\\x80\\xae"},
                                    {"\xe2\x81\xa6\xe2\x80\x8f", "\\xe2\\x81\\xa6\\xe2\\x80\\x8f"},
                                    {"\xe2\x1b", "\xef\xbf\xbd\\x1b"},
                                    {"\x9b", "\xef\xbf\xbd"}})
    EXPECT_EQ(printable(text), shown);
  EXPECT_EQ(as_markup("<\xef\xbf\xbe\xef\xbf\xbf\x01"), "&lt;\xef\xbf\xbd\xef\xbf\xbd ");
}

TEST(Table, ColumnsStandUnderTheirHeads) {
  std::istringstream lines(to_table(sample(), false));
  std::string head, row;
  while (std::getline(lines, head) && head.find("time") == std::string::npos) {
  }
  std::getline(lines, row);
  EXPECT_EQ(head.find("time") + 4, row.find("4.00 ms") + 7) << head << '\n' << row;
}

TEST(Table, NoRowsIsNoReasonToFail) {
  EXPECT_TRUE(has(to_table({}, false), "0 good"));
  EXPECT_EQ(parse_csv(to_csv({})).size(), 1U);
}

TEST(Format, ThreeDigitsAndAUnit) {
  EXPECT_EQ(format_seconds(0.0123456), "12.3 ms");
  EXPECT_EQ(format_seconds(0.000456), "456 us");
  EXPECT_EQ(format_seconds(2.5e-9), "2.50 ns");
  EXPECT_EQ(format_seconds(0.9999), "1.00 s");
  EXPECT_EQ(format_bytes(34e6), "34.0 MB");
  EXPECT_EQ(format_bytes(1.2e9), "1.20 GB");
  EXPECT_EQ(format_bytes(12), "12.0 B");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(12'300'000), "12.3 M");
  EXPECT_EQ(format_count(456'000), "456 k");
  EXPECT_EQ(format_count(1e308), "1.00e+296 T");
  EXPECT_EQ(format_bytes(9.9e17), "990000 TB");
}

ResultRow row_of(const char* entry, double seconds, int ranks) {
  return {.problem = {.matrix = "m", .op = Op::spgemm, .type = "f64", .rows = 4, .cols = 4, .nnz = 9},
          .entry = entry,
          .checked = true,
          .check = {.rows_checked = 4, .rows = 4},
          .mpi = std::string_view(entry).starts_with("02_"),
          .ranks = ranks,
          .run = summarize(std::vector<double>(7, seconds)),
          .phases = {{"compute", seconds / 2}, {"gather", seconds / 4}},
          .metrics = {
              {"compute_seconds", seconds / 2, "s"}, {"bytes_moved", 1e6, "B"}, {"lost", std::nan(""), ""}}};
}

Results sweep_of_three() {
  Results results;
  results.context = {{"cpu", "some"}};
  results.rows = {row_of("01_cpu_serial/slow", 8.0, 1), row_of("01_cpu_serial/fast", 4.0, 1),
                  row_of("vendor/faster", 1.0, 1), row_of("02_mpi/distributed", 1.0, 8)};
  return results;
}

TEST(Scaling, SpeedUpIsOverTheFastestEntryOfTheStageOrOfStageOne) {
  Results results = sweep_of_three();
  ResultRow other = row_of("02_mpi/distributed", 1.0, 8);
  other.problem.options = "C distributed";
  results.rows.push_back(other);
  relate_to_serial(results);
  EXPECT_EQ(results.rows[3].speedup_serial, 4.0);
  EXPECT_EQ(results.rows[1].speedup_serial, 0.0) << "serial entries are not compared with themselves";
  EXPECT_EQ(results.rows[4].speedup_serial, 0.0) << "another problem";
  results.rows.pop_back();
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
  results.rows.push_back(sample().rows[1]);  // a wrong one
  results.rows.push_back(sample().rows[0]);  // one with values that JSON has as null
  relate_to_serial(results);
  const json text = to_json(results);
  const Results back = results_from_json(json::parse(text.dump()));
  // What is written again must be what was read: phases come back by name, everything else as it was.
  EXPECT_EQ(to_json(back), text);
  EXPECT_EQ(back.rows.at(3).speedup_serial, 4.0);
  EXPECT_EQ(back.count(Status::wrong), 1);
  EXPECT_THROW(results_from_json(json::parse(R"({"context": {}, "results": [{}]})")), json::exception);
}

TEST(Scaling, WhatItDoesNotKnowIsRefusedAndNeverGood) {
  const json sound = to_json(sweep_of_three());
  const auto expect_refused = [&](const std::string& text, auto&& spoil) {
    json spoilt = sound;
    spoil(spoilt["results"][0]);
    EXPECT_TRUE(has(error_of([&] { results_from_json(spoilt); }), text));
  };
  expect_refused("the status 'doubtful'", [](auto& row) { row["status"] = "doubtful"; });
  expect_refused("the status ''", [](auto& row) { row["status"] = ""; });
  expect_refused("the operation 'spxx'", [](auto& row) { row["problem"]["operation"] = "spxx"; });
}

TEST(Scaling, TheTableHoldsRowsOnRanksOnly) {
  Results results = sweep_of_three();
  relate_to_serial(results);
  results.rows[3].run.noise = summarize({1.0}).noise;
  const std::string table = to_scaling_table(results, false);
  EXPECT_TRUE(has_all(table, {"02_mpi/distributed", " 1.00 s     ? ", "4.00x", "50%"}));  // 4x on 8 ranks
  EXPECT_FALSE(has(table, "01_cpu_serial"));
  EXPECT_FALSE(has(table, "nan"));
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
