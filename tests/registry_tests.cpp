// Names, order, and what an entry knows about itself.

#include "common/harness/registry.hpp"

#include "common/battery/matrices.hpp"
#include "tests/expect.hpp"
#include "tests/mutants/spgemm.hpp"
#include "tests/mutants/spmv.hpp"

namespace stages {
namespace {

using mutants::FaultyGustavson;
using mutants::FaultySpmv;
using mutants::GustavsonFault;
using mutants::SpmvFault;

Registry two_entries() {
  Registry registry;
  registry.add<FaultySpmv>({.name = "01_first/spmv", .idea = "one"}, SpmvFault::none);
  registry.add<FaultyGustavson>({.name = "vendor/spgemm", .idea = "two"}, GustavsonFault::none);
  return registry;
}

TEST(Registry, KeepsOrderNamesAndFacts) {
  const Registry registry = two_entries();
  ASSERT_EQ(registry.entries().size(), 2U);
  const Entry& first = registry.entries()[0];
  const Entry& second = registry.entries()[1];
  EXPECT_EQ(first.stage(), "01_first");
  EXPECT_FALSE(first.is_vendor());
  EXPECT_EQ(first.op, Op::spmv);
  EXPECT_TRUE(first.claims.bitwise_reproducible);
  EXPECT_EQ(second.stage(), "vendor");
  EXPECT_TRUE(second.is_vendor());
  EXPECT_EQ(second.op, Op::spgemm);
}

TEST(Registry, FindsByNameAndNamesTheNearest) {
  const Registry registry = two_entries();
  EXPECT_EQ(&registry.find("vendor/spgemm"), &registry.entries()[1]);
  const std::string message = error_of([&] { (void)registry.find("01_first/spmw"); });
  EXPECT_TRUE(has_all(message, {"01_first/spmw", "01_first/spmv"}));
  EXPECT_TRUE(error_of([&] {
                (void)registry.find("01_first/nothing like it");
              }).ends_with("'; there are 01_first/spmv"));
}

TEST(Registry, RefusesANameTwice) {
  Registry registry = two_entries();
  EXPECT_THROW((registry.add<FaultySpmv>({.name = "01_first/spmv", .idea = "again"}, SpmvFault::none)),
               Error);
  EXPECT_EQ(registry.entries().size(), 2U);
}

/// Tells what it was made with.
template <class T>
class Told final : public HostSpmvPlan<T> {
 public:
  Told(const SpmvProblem<T>& problem, Exec& /*exec*/, const ParameterValues& values, int extra)
      : HostSpmvPlan<T>(problem), told_(fmt::format("{} and {}", name_of(values), extra)) {}
  static Cost cost(const SpmvProblem<T>& problem, const ParameterValues& values) {
    return problem_cost(problem).plus_memory(chosen(values, "wide"));
  }
  static std::optional<std::string> refuse(const SpmvProblem<T>&, Exec&, const ParameterValues& values) {
    return chosen(values, "wide") == 8 ? std::optional("8 is too much") : std::nullopt;
  }
  std::string note() const override { return told_; }

 private:
  void product(const T*, T*) override {}
  std::string told_;
};

Registry with_parameters() {
  Registry registry = two_entries();
  registry.add<Told>(
      {.name = "01_first/told",
       .idea = "",
       .parameters = {{"wide", "how wide", "as it fits", 1, 8}, {"deep", "how deep", "2", 2, 1000}}},
      5);
  return registry;
}

TEST(Parameters, MakeAnEntryForEachCombination) {
  const Registry registry = with_parameters();
  const auto names = [&](const char* setting) {
    std::vector<std::string> out;
    for (const Entry* const entry : registry.variants(setting)) out.push_back(entry->name);
    return out;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names("01_first/told:wide=3"), Names{"01_first/told:wide=3"});
  EXPECT_EQ(names("01_first/told:deep=7,7,wide=1,2,deep=9"),
            (Names{"01_first/told:wide=1,deep=7", "01_first/told:wide=1,deep=9",
                   "01_first/told:wide=2,deep=7", "01_first/told:wide=2,deep=9"}));
  EXPECT_EQ(registry.entries().size(), 3U) << "they are no entries of their own";
  const Entry& found = registry.find("01_first/told:deep=9,wide=2");
  EXPECT_EQ(&found, registry.variants("01_first/told:wide=2,deep=9").front());
  EXPECT_EQ(found.name, "01_first/told:wide=2,deep=9");
  EXPECT_EQ(found.base(), "01_first/told");
  EXPECT_EQ(found.previous, "01_first/told");
}

TEST(Parameters, ReachPlansCostsAndRefusals) {
  const Registry registry = with_parameters();
  Exec exec;
  const auto problem = make_spmv_problem("i", share<float>(matrices::identity(3)));
  const auto on = [&](const char* name) { return registry.find(name).on<SpmvProblem<float>>(); };
  const auto refusal = [&](const char* name) { return on(name).look(problem, exec).refuse(problem, exec); };
  const auto cost = [&](const char* name) { return on(name).look(problem, exec).cost(problem); };
  EXPECT_TRUE(registry.find("01_first/told").on<SpmvProblem<double>>().look_with);
  EXPECT_FALSE(registry.find("01_first/told").on<SpmmProblem<float>>().look_with);
  EXPECT_EQ(refusal("01_first/spmv"), std::nullopt);
  EXPECT_EQ(cost("01_first/spmv").work, 3);
  EXPECT_EQ(on("01_first/told").prepare(problem, exec)->note(), " and 5");
  EXPECT_EQ(on("01_first/told:deep=4,wide=8").prepare(problem, exec)->note(), ":wide=8,deep=4 and 5");
  EXPECT_EQ(cost("01_first/told:wide=7").memory, cost("01_first/told").memory + 7);
  EXPECT_EQ(refusal("01_first/told:wide=8"), "8 is too much");
  EXPECT_EQ(refusal("01_first/told:wide=7"), std::nullopt);
}

TEST(Parameters, AreRefusedInOneLine) {
  const Registry registry = with_parameters();
  for (const auto& [setting, expected] : std::vector<std::pair<std::string, std::string>>{
           {"01_first/tolt:wide=3", "there is no entry '01_first/tolt'; the nearest are '01_first/told'"},
           {"01_first/spmv:wide=3", "01_first/spmv has no parameters"},
           {"01_first/told:wise=3", "01_first/told has no parameter 'wise'; the nearest is 'wide'"},
           {"01_first/told:wide=0", "01_first/told:wide=0: must be a whole number from 1 to 8"},
           {"01_first/told:wide=9", "wide=9: must be"},
           {"01_first/told:deep=7,1", "deep=1: must be"},
           {"01_first/told:wide=", "wide=: must be"},
           {"01_first/told:wide=3,", "wide=: must be"},
           {"01_first/told:wide=3x", "wide=3x: must be"},
           {"01_first/told:wide=99999999999", "wide=99999999999: must be"},
           {"01_first/told:3", "01_first/told: '3' names no parameter; write 01_first/told:wide=VALUE"},
           {"01_first/told:", "names no parameter"},
           {"01_first/told", "names no parameter"}}) {
    EXPECT_TRUE(has(error_of([&] { (void)registry.variants(setting); }), expected)) << setting;
  }
  EXPECT_TRUE(has_all(error_of([&] { (void)registry.find("01_first/told:wide=1,2"); }), {"is 2 entries"}));
}

std::shared_ptr<const Csr<double>> matrix(Index rows, Index cols) {
  return share<double>(matrices::uneven(rows, cols, 2));
}

TEST(Problems, RefuseWhatMakesNoSense) {
  EXPECT_THROW(make_spmv_problem("m", matrix(3, 4), Mode::chain, 5), Error);
  EXPECT_THROW(make_spmv_problem("m", matrix(3, 4), Mode::single, 2), Error);
  EXPECT_THROW(make_spmv_problem("m", matrix(3, 4), Mode::stream, 0), Error);
  EXPECT_THROW(make_spgemm_problem("m", matrix(3, 4), matrix(3, 4)), Error);
  EXPECT_THROW(make_spgemm_problem("m", matrix(3, 4), matrix(4, 3), Destination::host, 2), Error);
  EXPECT_THROW(make_spgemm_problem("m", matrix(3, 4), matrix(4, 4), Destination::host, 0), Error);
  SpmmProblem<double> spmm{.name = "m", .a = matrix(3, 4), .n_cols = 0};
  EXPECT_THROW(make_spmm_problem(spmm), Error);
  spmm.n_cols = 8;
  spmm.ldb = 7;
  EXPECT_THROW(make_spmm_problem(spmm), Error);
  spmm.ldb = 0;
  spmm.ldc = 2;
  spmm.c_layout = Layout::col_major;
  EXPECT_THROW(make_spmm_problem(spmm), Error);
}

/// Operations, bytes of the model, memory and work.
using Figures = std::array<double, 4>;
Figures of(const Cost& c) { return {c.operations, c.model_bytes, c.memory, c.work}; }

TEST(Problems, CountProducts) {
  const auto dense = share<double>(matrices::dense(4, 5)), other = share<double>(matrices::dense(5, 2));
  const auto p = make_spgemm_problem("m", dense, other);
  EXPECT_EQ(p.products, 4 * 5 * 2);
  EXPECT_EQ(p.max_row_products, 10);
  EXPECT_EQ(p.result_bound, 8);
  // Row pointers, columns and values of A, x and y, three times; of A and B, and C, which beta reads as well as
  // writes; of A, B and C as far as it can fill.
  const auto v = make_spmv_problem("m", dense, Mode::stream, 3);
  auto m = SpmmProblem<double>{.name = "m", .a = dense, .n_cols = 3};
  const double csr = 8 * 5 + 12 * 20;
  EXPECT_EQ(of(problem_cost(v)), (Figures{2 * 20 * 3, 3 * (csr + 8 * 9), 3 * 8 * 9, 20 * 3}));
  EXPECT_EQ(of(problem_cost(m)), (Figures{2 * 20 * 3, csr + 8 * 3 * (5 + 4), 8 * 3 * (5 + 4), 20 * 3}));
  m.beta = 1;
  EXPECT_EQ(of(problem_cost(m)), (Figures{2 * 20 * 3, csr + 8 * 3 * 13, 8 * 3 * 13, 20 * 3}));
  const double c = 8 * 5 + 12 * 8;
  EXPECT_EQ(of(problem_cost(p)), (Figures{80, csr + (8 * 6 + 12 * 10) + c, c + 8 * (20 + 10), 40}));
}

}  // namespace
}  // namespace stages
