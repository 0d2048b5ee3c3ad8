// Rules that are data: what a file of them says, what it may not say, and that those built in can be followed.

#include "common/gpu/rules.hpp"

#include <cstdlib>

#include "common/gpu/exec.hpp"
#include "common/gpu/facts.hpp"
#include "common/harness/entries.hpp"
#include "common/matrix/generate.hpp"
#include "tests/expect.hpp"

namespace stages {
namespace {

constexpr const char* kGpu = "gpu\tA GPU\t132\t6e7\t4e12\n";

TEST(Rules, ATreeIsFollowedToItsLeaf) {
  const char* const trees =
      "spmv\nif rows < 3 # and one\n  take one:chunk=2\nelse\n"
      "  if mean < 1.5\n    take two\n  else\n    take three\nspmm\ntake four\n";
  const auto all = parse_rules(fmt::format("# a comment\n{}{}", kGpu, trees), "a.txt");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].gpu, "A GPU");
  EXPECT_EQ(all[0].sms, 132);
  const auto taken = [&](double rows, double mean) {
    return all[0].choose(Op::spmv, {{"mean", mean, ""}, {"rows", rows, ""}}).name;
  };
  EXPECT_EQ(taken(2, 9), "one:chunk=2");
  EXPECT_EQ(taken(3, 1.4), "two");
  EXPECT_EQ(taken(3, 1.5), "three");
  EXPECT_EQ(all[0].choose(Op::spmm, {}).name, "four");
  EXPECT_EQ(all[0].choose(Op::spmv, {{"mean", 2, ""}, {"rows", 7, ""}}).why, "rows 7 >= 3, mean 2 >= 1.5");
}

TEST(Rules, FaultsAreNamedByFileAndLine) {
  const auto gpu = [](const char* rest) { return fmt::format("{}{}", kGpu, rest); };
  const std::pair<std::string, std::string> planted[] = {
      {"", "a.txt: has no rules"},
      {"spmv\ntake one\n", "a.txt:1: here must stand 'gpu'"},
      {"gpu\tA GPU\tmany\t6e7\t4e12\n", "a.txt:1: here must stand a number for 'many'"},
      {gpu("spxx\ntake one\n"), "a.txt:2: here must stand 'gpu' with its name"},
      {gpu("spmv\nif rows > 3\n"), "a.txt:3: here must stand 'if FEATURE < NUMBER'"},
      {gpu("spmv\nif rows < inf\n"), "a.txt:3: here must stand a number for 'inf'"},
      {gpu("spmv\nif rows < 3\ntake one\n"), "'else'"},
      {gpu("spmv\nif rows < 3\ntake one\nelse\n"), "'if FEATURE < NUMBER' or 'take ENTRY'"}};
  for (const auto& [text, said] : planted)
    EXPECT_TRUE(has(error_of([&, text = &text] { parse_rules(*text, "a.txt"); }), said));
  const Rules rules = parse_rules(gpu("spmv\nif rows < 3\ntake one\nelse\ntake two\n"), "a.txt").front();
  EXPECT_TRUE(has(error_of([&] {
                    rules.choose(Op::spmv, {{"rowz", 1, ""}});
                  }),
                  "'rows' of spmv; the nearest is 'rowz'"));
  EXPECT_TRUE(has(error_of([&] { rules.choose(Op::spgemm, {}); }), "no tree for spgemm"));
}

// What the rules name is there, whatever they name of a matrix; where it refuses the matrix the entry says so.
TEST(Rules, WhatRefusesIsReplaced) {
  Registry registry;
  add_entries(registry);
  GpuExec exec;
  const auto chosen = [&](const char* spec) {
    const auto a = std::make_shared<const Csr<float>>(generate<float>(spec));
    const auto problem = make_spmv_problem<float>(spec, a);
    return registry.find("05_cuda_csr/adaptive").on<SpmvProblem<float>>().look(problem, exec);
  };
  setenv("STAGES_RULES", STAGES_RULES_OF_TEST, 1);
  EXPECT_EQ(chosen("gen:stencil:points=5,nx=30").choice, "sliced:spread=6");
  const auto hubs = chosen("gen:hubs:n=9000,hub_length=8000");
  EXPECT_EQ(hubs.choice, "balanced");
  EXPECT_TRUE(has(hubs.why, "but sliced:spread=6 refuses it"));
  EXPECT_EQ(hubs.prepare(make_spmv_problem<float>(
                             "", std::make_shared<const Csr<float>>(generate<float>("gen:eye:n=4"))),
                         exec)
                ->chosen,
            "balanced");
}

// Step 7's features, and what its form is where the one that is named cannot be.
TEST(Rules, OfSpmmLookAtBoth) {
  Registry registry;
  add_entries(registry);
  GpuExec exec;
  setenv("STAGES_RULES", STAGES_RULES_OF_TEST, 1);
  const auto a = std::make_shared<const Csr<float>>(generate<float>("gen:fixed:n=64,per_row=32"));
  const auto plan_of = [&](Index n_cols) {
    const auto problem = make_spmm_problem<float>({.name = "", .a = a, .n_cols = n_cols});
    return registry.find("07_spmm/adaptive").on<SpmmProblem<float>>().prepare(problem, exec);
  };
  const auto plan = plan_of(16);
  EXPECT_EQ(plan->chosen, "whole_rows");
  const auto looked_at = [&](std::string_view name) {
    return std::ranges::find(plan->looked_at, name, &Metric::name)->value;
  };
  EXPECT_EQ(looked_at("row_bytes"), 64);
  EXPECT_NEAR(looked_at("tiles_busy"), 0.33, 0.05);
  EXPECT_NEAR(looked_at("operands_of_l2") * static_cast<double>(device_facts().l2_bytes), 8192, 1);
  EXPECT_EQ(plan_of(17)->chosen, "balanced");
}

}  // namespace
}  // namespace stages
