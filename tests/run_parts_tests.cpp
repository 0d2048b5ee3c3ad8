// The parts of `stages run`, each alone: what is chosen, what is multiplied, where, within which limits, what
// is kept, and how it is reported.

#include <algorithm>
#include <filesystem>
#include <new>

#include "common/battery/matrices.hpp"
#include "common/cli/kept.hpp"
#include "common/cli/places.hpp"
#include "common/cli/publish.hpp"
#include "common/cli/run_choice.hpp"
#include "common/cli/run_problems.hpp"
#include "common/matrix/error.hpp"
#include "tests/expect.hpp"

namespace stages {
namespace {

using matrices::Matrix;

/// The names of the entries that these arguments leave, of all that there are.
std::vector<std::string> left(const RunArguments& arguments) {
  Ranks ranks;
  Program program{{.left_out = {{"99_there", "a moon"}}}, "stages", {}, ranks};
  add_entries(program.registry);
  std::vector<std::string> out;
  for (const Entry* const entry : chosen_entries(program, arguments)) out.push_back(entry->name);
  return out;
}

TEST(Choice, OfEntriesByOperationStageNameAndParameter) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(left({.ops = {"spmm"}, .stages = {"01"}}),
            (Names{"01_cpu_serial/csr_spmm_plain", "01_cpu_serial/csr_spmm"}));
  EXPECT_EQ(left({.stages = {"01_cpu_serial"}, .filter = "hash$"}), Names{"01_cpu_serial/gustavson_hash"});
  EXPECT_GT(left({}).size(), left({.ops = {"spmv", "spmm"}}).size());
  EXPECT_TRUE(has(error_of([] { left({.stages = {"99"}}); }), "left out of this build: it needs a moon"));
  EXPECT_TRUE(has(error_of([] { left({.stages = {"98"}}); }), "there is no step '98'"));
  EXPECT_TRUE(has(error_of([] { left({.filter = "nobody"}); }), "no entry is left"));
}

TEST(Choice, OfMatricesAndWhatIsDoneWithThem) {
  const auto jobs = jobs_of({.matrices = {"data:all"}, .ops = {"spmv"}});
  EXPECT_TRUE(std::ranges::all_of(jobs, &Job::from_set));
  EXPECT_EQ(jobs_of({.matrices = {"data:hypersparse"}}).front().ops, (std::vector{Op::spmv, Op::spgemm}));
  EXPECT_EQ(jobs_of({.matrices = {"data:d1"}}).front().b, "gen:d1:b");
  const std::vector<std::string> oblong = {"gen:uniform:rows=3,cols=4,nnz=5"};
  EXPECT_EQ(jobs_of({.matrices = oblong, .problem = {.b = "gen:uniform:rows=4,cols=2,nnz=5"}}).front().ops,
            std::vector{Op::spgemm});
  EXPECT_NE(error_of([&] { jobs_of({.matrices = oblong, .problem = {.b = oblong.front()}}); }), "");
  EXPECT_NE(error_of([&] { jobs_of({.matrices = oblong, .ops = {"spmv"}, .problem = {.mode = "chain"}}); }),
            "");
  EXPECT_TRUE(has(error_of([] { require_effect({.ops = {"spmv"}, .problem = {.n_cols = {8}}}); }),
                  "--n-cols is for spmm, and this run has spmv only"));
}

/// What is made of one job: "a rows x b cols, form" of each problem, or why there is none.
std::vector<std::string> made(Op op, const Job& job, const Matrix& a, const ProblemOptions& options,
                              const RunOptions& limits = {}) {
  const Problems<float> problems{options, limits, true,
                                 [](const std::string&) { return share<float>(matrices::dense(3, 5)); }};
  std::vector<std::string> out;
  const std::string left_out =
      problems.of(op, job, share<float>(a), [&](const auto& problem, const std::string& form) {
        if constexpr (requires { problem.b; })
          out.push_back(fmt::format("{} x {} {}", problem.a->rows, problem.b->cols, form));
        else if constexpr (requires { problem.n_cols; })
          out.push_back(fmt::format("N = {}", problem.n_cols));
        else
          out.push_back(fmt::format("{} of {}", to_string(problem.mode), problem.n_vectors));
      });
  if (!left_out.empty()) out.push_back(left_out);
  return out;
}
using Made = std::vector<std::string>;

TEST(Problems, AreThoseThatOptionsAskFor) {
  const Job job{.name = "m", .from_set = true};
  EXPECT_EQ(made(Op::spmv, job, matrices::dense(4, 3), {}), Made{"single of 1"});
  EXPECT_EQ(made(Op::spmv, job, matrices::dense(4, 3), {.mode = "stream", .products = 7}),
            Made{"stream of 7"});
  EXPECT_EQ(made(Op::spmm, job, matrices::dense(4, 3), {.n_cols = {8, 40}}), (Made{"N = 8", "N = 40"}));
  EXPECT_EQ(made(Op::spgemm, job, matrices::dense(4, 4), {.destinations = {"host", "distributed"}}),
            (Made{"4 x 4 ", "4 x 4 "}));
  EXPECT_EQ(made(Op::spgemm, {.name = "m", .b = "n"}, matrices::dense(4, 3), {}), Made{"4 x 5 times n"});
}

TEST(Problems, ASquareIsTheCheaperOfTwo) {
  const Job job{.name = "m"};
  EXPECT_EQ(made(Op::spgemm, job, matrices::dense_row(5, 9, 1), {}), Made{"5 x 5 A A^T"});
  EXPECT_EQ(made(Op::spgemm, job, matrices::dense(9, 2), {}), Made{"2 x 2 A^T A"});
}

TEST(Problems, OfTheBuiltInSetChainsThatMakeNoSenseAreLeftOut) {
  const ProblemOptions chain{.mode = "chain"};
  const Job of_set{.name = "m", .b = "n", .from_set = true};
  EXPECT_TRUE(has(made(Op::spmv, of_set, matrices::dense(4, 3), chain).at(0), "this one is 4 x 3"));
  EXPECT_TRUE(has(made(Op::spgemm, of_set, matrices::dense(3, 3), chain).at(0), "needs a square B"));
  EXPECT_TRUE(has(error_of([&] { made(Op::spmv, {.name = "m"}, matrices::dense(4, 3), chain); }), "square"));
}

TEST(Limits, FewerProductsWhereWorkIsLimitedAndNoRoomForEmptyLines) {
  const RunOptions work{.max_work = 1000, .max_simulated_work = 100}, bytes{.max_memory = 1e7};
  EXPECT_EQ(default_products(work, false, 50), 20);
  EXPECT_EQ(default_products(work, true, 50), 2);
  EXPECT_EQ(default_products(work, true, 5000), 1);
  EXPECT_EQ(default_products(work, false, 0), kDefaultProducts);
  require_room(bytes, "few", Csr<float>(10'000, 10'000), 1);
  EXPECT_THROW(require_room(bytes, "many", Csr<float>(1'000'000, 10'000), 1), OutOfMemory);
  EXPECT_THROW(require_room(bytes, "wide", Csr<double>(10'000, 10'000), 100), OutOfMemory);
}

ResultRow row_named(const char* entry) {
  ResultRow row;
  row.entry = entry;
  row.problem.matrix = "m";
  return row;
}

TEST(Kept, AnErrorCostsTheRowsThatHaveNoResult) {
  std::vector<std::string> told;
  Kept kept([&](const std::string& error) { told.push_back(error); });
  const std::vector<ResultRow> blank = {row_named("a"), row_named("b")};
  const bool alone = false, all_wait = true;
  EXPECT_TRUE(kept.attempt(blank, alone, [&] { kept.results().rows.push_back(row_named("good")); }));
  EXPECT_FALSE(kept.attempt(blank, alone, [] { fail("bad file"); }));
  EXPECT_FALSE(kept.attempt(blank, alone, [] { throw OutOfMemory("needs 9 GB"); }));
  EXPECT_FALSE(kept.attempt(blank, alone, [&] {
    ResultRow done = row_named("a");
    done.simulated = done.checked = true;
    kept.results().rows.insert(kept.results().rows.end(), {done, row_named("b")});
    throw std::bad_alloc();
  }));
  EXPECT_THROW(kept.attempt(blank, all_wait, [] { fail("others wait"); }), Error);
  std::vector<Status> fates;
  for (const ResultRow& row : kept.results().rows) fates.push_back(row.status);
  using enum Status;
  EXPECT_EQ(fates, (std::vector{good, failed, failed, skipped, skipped, good, failed}));
  EXPECT_EQ(kept.results().rows[3].reason, "needs 9 GB");
  ASSERT_EQ(told.size(), 2U);  // what has no room is no error
  EXPECT_EQ(told[0], "bad file");
  EXPECT_EQ(told[1].substr(0, 3), "m: ");
  EXPECT_EQ(kept.errors(), told);
}

TEST(Kept, APartHasWhatIsKeptAndSaysWhatWasNotReached) {
  Kept kept([](const std::string&) {});
  kept.results().rows.push_back(row_named("done"));
  kept.keep();
  kept.results().rows.push_back(row_named("not kept"));
  std::vector<ResultRow> now = {row_named("checked"), row_named("waiting")};
  now[0].checked = true;
  kept.keep_under_way(now);
  const Results part = kept.part("SIGTERM");
  ASSERT_EQ(part.rows.size(), 3U);
  EXPECT_EQ(part.rows[0].entry, "done");
  EXPECT_EQ(part.rows[1].note, "not timed: SIGTERM");
  EXPECT_EQ(part.rows[2].reason, "not reached: SIGTERM");
  EXPECT_EQ(part.context.back(), (std::pair<std::string, std::string>("part", "SIGTERM")));
}

TEST(Places, OneProcessHasItsDevicesOnce) {
  Ranks ranks;
  Places places(ranks);
  EXPECT_EQ(&places.alone(), &places.alone());
  EXPECT_EQ(&places.all(true).host, &places.alone().host);
}

TEST(Publisher, WritesBothFilesAndOfAPartWithoutAResultNone) {
  const std::filesystem::path directory = std::filesystem::temp_directory_path() / "stages_publisher";
  std::filesystem::create_directories(directory);
  RunArguments arguments;
  arguments.json = directory / "x.json";
  arguments.csv = directory / "x.csv";
  Results results;
  results.context = {{"source_digest", "0123"}, {"command", "c"}};
  results.rows.push_back(row_named("01_x/a"));
  testing::internal::CaptureStdout();
  Publisher(arguments, results).publish(results);
  EXPECT_TRUE(has(testing::internal::GetCapturedStdout(), "01_x/a"));
  EXPECT_EQ(results_in(arguments.json).rows.size(), 1U);
  EXPECT_TRUE(std::filesystem::exists(arguments.csv));

  std::filesystem::remove(arguments.json);
  Publisher(arguments, results).publish_part(results, "SIGTERM");  // nothing was checked
  EXPECT_FALSE(std::filesystem::exists(arguments.json));
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace stages
