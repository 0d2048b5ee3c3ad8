// A planted race in the files that show it, and entries that multiply where nobody times it: what their kernels
// read in run() tells. (What the check itself tells of such entries is in tests/mutants.)
#include <nlohmann/json.hpp>

#include "common/battery/matrices.hpp"
#include "common/gpu/exec.hpp"
#include "common/harness/product.hpp"
#include "common/lens/lens.hpp"
#include "tests/cuda_mutants/mutants.hpp"
#include "tests/expect.hpp"
#include "tests/in_run.hpp"

namespace stages::cuda_mutants {
namespace {

TEST(CudaMutants, ARaceIsShownInFilesWithBothLines) {
  GpuExec exec;
  const auto ramp = share<float>(matrices::ramp(70, 200));
  const Entry entry = tile_entry(Fault::no_barrier_after_copy);
  const RaceView view =
      look_for_races(entry.name, one_product(entry, make_spmv_problem<float>("a", ramp), exec));
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

TEST(InRun, CountsTellWhatTheCheckCannot) {
  GpuExec exec;
  const auto problem = make_spmv_problem<float>("a", generated<float>("gen:uniform:n=600,per_row=10"));
  struct Told {
    Fault fault;
    std::string which, what;
  };
  const std::string least = " bytes in run(), and such a product needs";
  for (const Told& told : {
           Told{Fault::none, "", ""},
           {Fault::copies_from_load, "the run after load(): its kernels read 0", least},
           {Fault::replays, "the run after that: its kernels read 0", least},
           {Fault::in_another_stream, "work that run() has begun", "in a stream that nobody waits for"},
       }) {
    const Entry entry = row_entry(told.fault);
    EXPECT_EQ(check_entry(entry, problem, exec).failure, "");
    const std::string said = not_counted_in_run(entry, problem, exec);
    EXPECT_EQ(said.empty(), told.fault == Fault::none) << said;
    EXPECT_TRUE(starts(said, told.which));
    EXPECT_TRUE(has(said, told.what));
  }
}

}  // namespace
}  // namespace stages::cuda_mutants
