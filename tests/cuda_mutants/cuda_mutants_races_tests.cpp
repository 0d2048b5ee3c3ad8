// The planted faults that are races: the search for races (common/simt/lens) tells each, in the order of
// threads in which they run anyway, and reports nothing of the same kernel without the fault.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/battery/battery.hpp"
#include "common/battery/matrices.hpp"
#include "common/gpu/exec.hpp"
#include "common/lens/product.hpp"
#include "common/lens/races.hpp"
#include "tests/cuda_mutants/hash_mutants.hpp"
#include "tests/cuda_mutants/mutants.hpp"
#include "tests/cuda_mutants/spmm_mutants.hpp"

namespace stages::cuda_mutants {
namespace {

using battery::Case;

/// A kernel with a fault, the same without, and what a report says is missing.
struct Planted {
  std::string name;
  Entry entry, twin;
  Case problem;
  std::string missing;
};

Case spmv(Csr<double> (*a)(), Mode mode = Mode::single, Index products = 1) {
  return {.name = "a", .op = Op::spmv, .a = a, .mode = mode, .products = products};
}

std::vector<Planted> all_planted() {
  using namespace matrices;
  const Case ramp_70 = spmv([] { return ramp(70, 200); });
  const Case hub = spmv([] { return dense_row(9, 1000, 4); });
  const Case chunks = {.name = "a", .op = Op::spmm, .a = [] { return ramp(70, 90); }, .n_cols = 37};
  const Case products = {.name = "a",
                         .op = Op::spgemm,
                         .a = [] { return uneven(16, 20, 6); },
                         .b = [] { return uneven(20, 90, 12); }};
  const auto tile = [&](const char* name, TileFault fault, const char* missing) {
    return Planted{name, tile_entry(fault), tile_entry(TileFault::none), ramp_70, missing};
  };
  const auto of_hub = [&](const char* name, HubFault fault, const char* missing) {
    return Planted{name, hub_entry(fault), hub_entry(HubFault::none), hub, missing};
  };
  const auto hash = [&](const char* name, HashFault fault, const char* missing) {
    return Planted{name, hash_entry(fault), hash_entry(HashFault::none), products, missing};
  };
  return {tile("no_barrier_after_copy", TileFault::no_barrier_after_copy, "a __syncthreads()"),
          tile("no_barrier_before_copy", TileFault::no_barrier_before_copy, "a __syncthreads()"),
          of_hub("no_fence", HubFault::no_fence, "an atomic access on both sides, or a fence and a flag"),
          of_hub("adds_too_early", HubFault::adds_too_early,
                 "an atomic access on both sides, or a fence and a flag"),
          {"shares_no_syncwarp", share_entry(ShareFault::no_syncwarp), share_entry(ShareFault::none), hub,
           "a __syncwarp() of both lanes"},
          hash("no_syncwarp", HashFault::no_syncwarp, "a __syncwarp() of both lanes"),
          hash("racing_sums", HashFault::racing_sums, "an atomic operation"),
          {"plain_add", atomic_entry(AtomicFault::plain_add), atomic_entry(AtomicFault::none), chunks,
           "an atomic operation"}};
}

template <class Problem>
RaceView look_as(const Entry& entry, const Case& c) {
  GpuExec exec;
  return look_for_races(entry.name, one_product(entry, battery::make_problem<Problem>(c), exec));
}
RaceView look(const Entry& entry, const Case& c) {
  if (c.op == Op::spmv) return look_as<SpmvProblem<float>>(entry, c);
  if (c.op == Op::spmm) return look_as<SpmmProblem<float>>(entry, c);
  return look_as<SpgemmProblem<float>>(entry, c);
}

TEST(CudaMutants, RacesAreToldInTheForwardOrder) {
  for (const Planted& planted : all_planted()) {
    const RaceView twin = look(planted.twin, planted.problem), found = look(planted.entry, planted.problem);
    EXPECT_TRUE(twin.races.empty()) << planted.name << ", without the fault: " << races_text(twin);
    EXPECT_EQ(twin.problem, "") << planted.name;
    ASSERT_FALSE(found.races.empty()) << planted.name << " is not told";
    EXPECT_NE(races_text(found).find("missing: " + planted.missing), std::string::npos)
        << planted.name << ": " << races_text(found);
  }
}

TEST(CudaMutants, ARaceIsShownInFilesWithBothLines) {
  RaceView view =
      look(tile_entry(TileFault::no_barrier_after_copy), spmv([] { return matrices::ramp(70, 200); }));
  ASSERT_FALSE(view.races.empty());
  const auto json = races_json(view);
  const auto& race = json.at("races").at(0);
  EXPECT_EQ(race.at("space"), "shared");
  EXPECT_EQ(race.at("missing"), "a __syncthreads()");
  EXPECT_GT(race.at("times"), 0);
  for (const char* side : {"first", "second"}) {
    EXPECT_EQ(race.at(side).at("file"), "tests/cuda_mutants/spmv_mutants.cu");
    EXPECT_GT(race.at(side).at("line"), 0);
    EXPECT_EQ(race.at(side).at("thread").size(), 3u);
  }
  view.entry = "<an entry>";
  const std::string page = races_html("races & more", {&view, 1});
  for (const char* part : {"<title>races &amp; more</title>", "<h2>&lt;an entry></h2>",
                           "tile[k - first] = x[k];", "class=hot", "Missing: a __syncthreads()."})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_EQ(page.find(STAGES_PROJECT), std::string::npos) << "a path of this machine";
  if (const char* const file = std::getenv("STAGES_RACES_PAGE")) std::ofstream(file) << page;
  EXPECT_EQ(races_text(view).find(STAGES_PROJECT), std::string::npos);
}

}  // namespace
}  // namespace stages::cuda_mutants
