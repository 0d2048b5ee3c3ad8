// Results as JSON, CSV and table: complete, readable by others, and honest about what is not known.

#include "common/harness/results.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/matrix/error.hpp"

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
                 .products = 1,
                 .multiplications = 960};
  row.entry = "01_cpu_serial/csr";
  row.idea = "row by row";
  row.checked = true;
  row.check.rows = 10;
  row.check.rows_checked = 4;
  row.check.worst = 0.25;
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
  ResultRow skipped;
  skipped.problem = row.problem;
  skipped.entry = "01_cpu_serial/dense";
  skipped.status = Status::skipped;
  skipped.reason = "needs 4 GB";
  results.rows.push_back(skipped);
  return results;
}

TEST(Json, HoldsEverythingAndParsesBack) {
  const json out = json::parse(to_json(sample()).dump());
  EXPECT_EQ(out["schema_version"], kSchemaVersion);
  EXPECT_EQ(out["context"]["command"], "stages run \"x\"");
  ASSERT_EQ(out["results"].size(), 3U);
  const json& row = out["results"][0];
  EXPECT_EQ(row["problem"]["matrix"], "dir, with comma/m \"q\".mtx");
  EXPECT_EQ(row["problem"]["operation"], "spmm");
  EXPECT_EQ(row["problem"]["nnz"], 30);
  EXPECT_EQ(row["entry"], "01_cpu_serial/csr");
  EXPECT_EQ(row["status"], "good");
  EXPECT_EQ(row["check"]["passed"], true);
  EXPECT_EQ(row["check"]["sampled"], true);
  EXPECT_EQ(row["check"]["rows_checked"], 4);
  EXPECT_EQ(row["seconds"]["prepare"], 0.5);
  EXPECT_EQ(row["seconds"]["run"]["median"], 4e-3);
  EXPECT_EQ(row["seconds"]["run"]["samples"], sample().rows[0].run.samples);
  EXPECT_EQ(row["seconds"]["phases"]["numeric"], 3e-3);
  EXPECT_EQ(row["gflops"], 1.5);
  EXPECT_EQ(row["metrics"]["registers"]["value"], 40);
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

TEST(Json, WhatWasNotJudgedIsThereAndInTheTable) {
  Results results = sample();
  results.rows[0].check.sums = 20;
  results.rows[0].check.not_judged = 3;
  const json check = to_json(results)["results"][0]["check"];
  EXPECT_EQ(check["sums"], 20);
  EXPECT_EQ(check["sums_not_judged"], 3);
  EXPECT_EQ(results_from_json(to_json(results)).rows[0].check.not_judged, 3);
  EXPECT_NE(to_table(results, false)
                .find("4 of 10 rows checked in full, 3 of 20 sums beyond the type's range: not judged"),
            std::string::npos)
      << to_table(results, false);
}

TEST(Json, WhatIsUnknownIsNull) {
  const json out = to_json(sample());
  const json& row = out["results"][0];
  EXPECT_TRUE(row["break_even_products"].is_null());
  EXPECT_TRUE(row["metrics"]["spilled"]["value"].is_null());
  EXPECT_TRUE(row["speedup_peer"].is_null());
  EXPECT_EQ(row["speedup_previous"], 2);
}

TEST(Json, RowsWithoutTimesHaveNone) {
  const json out = to_json(sample());
  EXPECT_FALSE(out["results"][1].contains("seconds"));
  EXPECT_FALSE(out["results"][1].contains("gflops"));
  EXPECT_EQ(out["results"][1]["check"]["passed"], false);
  EXPECT_EQ(out["results"][1]["reason"], "element (0, 0) is NaN");
  EXPECT_FALSE(out["results"][2].contains("check")) << "was never checked";
  EXPECT_EQ(out["results"][2]["status"], "skipped");
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
  const auto lines = parse_csv(to_csv(sample()));
  ASSERT_EQ(lines.size(), 4U);
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
}

TEST(Csv, APartSaysSoInALineOfItsOwn) {
  Results results = sample();
  results.context.emplace_back("part", "the run was ended by SIGINT");
  const auto lines = parse_csv(to_csv(results));
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[4].size(), lines[0].size());
  EXPECT_EQ(lines[4][7], "");  // no entry's
  EXPECT_EQ(lines[4][8], "skipped");
  EXPECT_EQ(lines[4][9], "the run was ended by SIGINT; what is not above was not reached");
}

TEST(Csv, NoFieldIsAFormula) {
  Results results = sample();
  for (const char* const start : {"=", "+", "-", "@", "\t", "\r", "\n"}) {
    results.rows[0].problem.matrix = std::string(start) + "HYPERLINK(\"http://a.b\",1).mtx";
    EXPECT_EQ(parse_csv(to_csv(results))[1][0], "'" + results.rows[0].problem.matrix);
  }
  results.rows[0].problem.matrix = "a=b-c.mtx";
  EXPECT_EQ(parse_csv(to_csv(results))[1][0], "a=b-c.mtx");
  results.rows[0].reason = "=1+1";
  EXPECT_EQ(parse_csv(to_csv(results))[1][9], "'=1+1");
}

TEST(Table, SaysWhatAPersonAsks) {
  const std::string table = to_table(sample(), false);
  for (const char* text :
       {"01_cpu_serial/csr", "4.00 ms", "N = 32", "WRONG: element (0, 0) is NaN", "skipped: needs 4 GB",
        "a note", "4 of 10 rows checked in full", "never", "2.00x", "1 good, 1 wrong, 0 failed, 1 skipped"})
    EXPECT_NE(table.find(text), std::string::npos) << text << " in\n" << table;
  EXPECT_EQ(table.find('\033'), std::string::npos) << "colours although none were asked for";
  EXPECT_NE(to_table(sample(), true).find('\033'), std::string::npos);
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
  EXPECT_NE(to_table({}, false).find("0 good"), std::string::npos);
  EXPECT_EQ(parse_csv(to_csv({})).size(), 1U);
  EXPECT_TRUE(to_json(Results{})["results"].empty());
}

TEST(Format, ThreeDigitsAndAUnit) {
  EXPECT_EQ(format_seconds(1.2345), "1.23 s");
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

TEST(WriteFile, IsCompleteOrNotThere) {
  const std::filesystem::path directory =
      std::filesystem::temp_directory_path() / fmt::format("stages_results_{}", getpid());
  std::filesystem::create_directory(directory);
  const std::string path = (directory / "out.json").string();
  write_file(path, "first");
  write_file(path, std::string(100'000, 'x'));
  std::ifstream in(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), std::string(100'000, 'x'));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory), {}), 1)
      << "a temporary file stayed";
  const std::string nowhere = (directory / "no" / "such" / "out.json").string();
  EXPECT_THROW(write_file(nowhere, "text"), Error);
  std::filesystem::create_directory(directory / "taken");
  EXPECT_THROW(write_file((directory / "taken").string(), "text"), Error);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory), {}), 2)
      << "a temporary file stayed";
  std::filesystem::remove_all(directory);
}

template <class E, std::size_t N>
void expect_read_back(const std::array<Named<E>, N>& table) {
  for (const auto& [value, name] : table) {
    EXPECT_EQ(to_string(value), name);
    EXPECT_EQ(value_named(table, name), value);
  }
}

TEST(Names, AreWrittenAndReadByOneTable) {
  expect_read_back(kOps);
  expect_read_back(kModes);
  expect_read_back(kDestinations);
  expect_read_back(kLayouts);
  expect_read_back(kStatuses);
  EXPECT_EQ(names_in(kDestinations), (std::vector<std::string>{"host", "distributed", "one-gpu"}));
  EXPECT_FALSE(value_named(kModes, "singl"));
  EXPECT_EQ(name_of(kModes, Mode{9}), "");
}

}  // namespace
}  // namespace stages
