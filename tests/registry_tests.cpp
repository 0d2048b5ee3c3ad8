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
  EXPECT_FALSE(first.is_peer());
  EXPECT_EQ(first.op, Op::spmv);
  EXPECT_TRUE(first.claims.bitwise_reproducible);
  EXPECT_EQ(second.stage(), "vendor");
  EXPECT_TRUE(second.is_peer());
  EXPECT_EQ(second.op, Op::spgemm);
}

TEST(Registry, FindsByNameAndNamesTheNearest) {
  const Registry registry = two_entries();
  EXPECT_EQ(&registry.find("vendor/spgemm"), &registry.entries()[1]);
  const std::string message = error_of([&] { (void)registry.find("01_first/spmw"); });
  EXPECT_TRUE(has_all(message, {"01_first/spmw", "01_first/spmv"}));
}

TEST(Registry, RefusesANameTwice) {
  Registry registry = two_entries();
  EXPECT_THROW((registry.add<FaultySpmv>({.name = "01_first/spmv", .idea = "again"}, SpmvFault::none)),
               Error);
  EXPECT_EQ(registry.entries().size(), 2U);
}

TEST(Registry, MakesPlansForBothTypesWithTheExtraArguments) {
  Registry registry;
  registry.add<FaultySpmv>({.name = "x/right", .idea = ""}, SpmvFault::none);
  registry.add<FaultySpmv>({.name = "x/null", .idea = ""}, SpmvFault::null_kernel);
  Exec exec;
  const auto problem = make_spmv_problem("i", share<float>(matrices::identity(3)));
  SpmvOperands<float> in{Dense<float>(3, 1, Layout::col_major)};
  in.x.data = {1, 2, 3};
  for (const Entry& entry : registry.entries()) {
    const auto plan = entry.on<SpmvProblem<float>>().prepare(problem, exec);
    plan->load(in);
    plan->reset();
    plan->run();
    EXPECT_EQ(plan->fetch().data == in.x.data, entry.name == "x/right");
    EXPECT_EQ(entry.on<SpmvProblem<float>>().refuse(problem, exec), std::nullopt);
    EXPECT_EQ(entry.on<SpmvProblem<float>>().cost(problem).work, 3);
    EXPECT_TRUE(entry.on<SpmvProblem<double>>().prepare);
    EXPECT_FALSE(entry.on<SpmmProblem<float>>().prepare);
  }
}

std::shared_ptr<const Csr<double>> matrix(Index rows, Index cols) {
  return share<double>(matrices::uneven(rows, cols, 2));
}

TEST(Problems, RefuseWhatMakesNoSense) {
  EXPECT_THROW(make_spmv_problem("m", matrix(3, 4), Mode::chain, 5), Error);
  EXPECT_THROW(make_spmv_problem("m", matrix(3, 4), Mode::single, 2), Error);
  EXPECT_THROW(make_spmv_problem("m", matrix(3, 4), Mode::stream, 0), Error);
  EXPECT_THROW(make_spgemm_problem("m", matrix(3, 4), matrix(3, 4)), Error);
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

TEST(Problems, CountProducts) {
  const auto dense = share<double>(matrices::dense(4, 5)), other = share<double>(matrices::dense(5, 2));
  const auto p = make_spgemm_problem("m", dense, other);
  EXPECT_EQ(p.products, 4 * 5 * 2);
  EXPECT_EQ(p.max_row_products, 10);
  EXPECT_EQ(p.result_bound, 8);
  EXPECT_EQ(problem_cost(p).operations, 80);
  const auto v = make_spmv_problem("m", dense, Mode::stream, 3);
  EXPECT_EQ(problem_cost(v).operations, 2 * 20 * 3);
  // Row pointers, columns and values of A, x and y, three times.
  EXPECT_EQ(problem_cost(v).model_bytes, 3 * (8 * 5 + 12 * 20 + 8 * 9));
}

}  // namespace
}  // namespace stages
