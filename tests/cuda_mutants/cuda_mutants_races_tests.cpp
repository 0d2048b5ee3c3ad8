// The planted faults that are races: the search for races (common/simt/lens) tells each, in the order of
// threads in which they run anyway, and reports nothing of the same kernel without the fault. And entries that
// multiply where nobody times it: the check tells some, what their kernels read in run() the others.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/battery/battery.hpp"
#include "common/battery/matrices.hpp"
#include "common/gpu/exec.hpp"
#include "common/harness/product.hpp"
#include "common/lens/races.hpp"
#include "tests/cuda_mutants/mutants.hpp"
#include "tests/in_run.hpp"

namespace stages::cuda_mutants {
namespace {

using battery::Case;

/// A kernel, its fault, and what a report says is missing.
struct Planted {
  Entry (*form)(Fault);
  Fault fault;
  Case problem;
  std::string missing;
};

Case spmv(Csr<double> (*a)()) {
  return {.name = "a", .op = Op::spmv, .a = a};
}

std::vector<Planted> all_planted() {
  using namespace matrices;
  using F = Fault;
  const Case ramp_70 = spmv([] { return ramp(70, 200); });
  const Case hub = spmv([] { return dense_row(9, 1000, 4); });
  const Case chunks = {.name = "a", .op = Op::spmm, .a = [] { return ramp(70, 90); }, .n_cols = 37};
  const Case products = {.name = "a",
                         .op = Op::spgemm,
                         .a = [] { return uneven(16, 20, 6); },
                         .b = [] { return uneven(20, 90, 12); }};
  const std::string barrier = "a __syncthreads()", of_lanes = "a __syncwarp() of both lanes",
                    operation = "an atomic operation",
                    access = "an atomic access on both sides, or a fence and a flag";
  return {{tile_entry, F::no_barrier_after_copy, ramp_70, barrier},
          {tile_entry, F::no_barrier_before_copy, ramp_70, barrier},
          {hub_entry, F::no_fence, hub, access},
          {hub_entry, F::adds_too_early, hub, access},
          {hash_entry, F::no_syncwarp, products, of_lanes},
          {hash_entry, F::racing_sums, products, operation},
          {atomic_entry, F::plain_add, chunks, operation}};
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
    SCOPED_TRACE(planted.form(planted.fault).name + ", missing: " + planted.missing);
    const RaceView twin = look(planted.form(Fault::none), planted.problem),
                   found = look(planted.form(planted.fault), planted.problem);
    EXPECT_TRUE(twin.races.empty()) << "without the fault: " << races_text(twin);
    EXPECT_EQ(twin.problem, "");
    ASSERT_FALSE(found.races.empty()) << "is not told";
    EXPECT_NE(races_text(found).find("missing: " + planted.missing), std::string::npos) << races_text(found);
  }
}

TEST(CudaMutants, ARaceIsShownInFilesWithBothLines) {
  const RaceView view =
      look(tile_entry(Fault::no_barrier_after_copy), spmv([] { return matrices::ramp(70, 200); }));
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
  EXPECT_EQ(races_text(view).find(STAGES_PROJECT), std::string::npos);
}

// ---- where it multiplies ------------------------------------------------------------------------------------

SpmvProblem<float> problem() {
  return make_spmv_problem<float>("a", generated<float>("gen:uniform:n=600,per_row=10"));
}

TEST(InRun, AnEntryThatMultipliesThereIsRight) {
  GpuExec exec;
  const Entry entry = in_run_entry(Fault::none);
  EXPECT_EQ(check_entry(entry, problem(), exec).failure, "");
  EXPECT_EQ(not_counted_in_run(entry, problem(), exec), "");
}

TEST(InRun, TheCheckTellsWhatIsMultipliedAfterItOrReturnedAgain) {
  GpuExec exec;
  for (const Fault fault : {Fault::multiplies_in_fetch, Fault::first_answer}) {
    const std::string said = check_entry(in_run_entry(fault), problem(), exec).failure;
    EXPECT_NE(said.find("it is the product of the first: kept, or made by load, reset or fetch"),
              std::string::npos)
        << said;
  }
}

TEST(InRun, CountsTellWhatTheCheckCannot) {
  GpuExec exec;
  struct Told {
    Fault fault;
    std::string which, what;
  };
  const std::string least = " bytes in run(), and such a product needs";
  for (const Told& told : {
           Told{Fault::copies_from_load, "the run after load(): its kernels read 0", least},
           {Fault::copies_by_a_kernel, "the run after load(): its kernels read 2,400", least},
           {Fault::on_the_host, "the run after load(): its kernels read 0", least},
           {Fault::replays, "the run after that: its kernels read 0", least},
           {Fault::in_another_stream, "work that run() has begun", "in a stream that nobody waits for"},
       }) {
    const Entry entry = in_run_entry(told.fault);
    EXPECT_EQ(check_entry(entry, problem(), exec).failure, "");
    const std::string said = not_counted_in_run(entry, problem(), exec);
    EXPECT_EQ(said.substr(0, told.which.size()), told.which) << said;
    EXPECT_NE(said.find(told.what), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace stages::cuda_mutants
