// Entries that multiply where nobody times it: the check tells some, what their kernels read in run() the
// others.
#include <gtest/gtest.h>

#include "common/gpu/exec.hpp"
#include "tests/cuda_mutants/in_run_mutants.hpp"
#include "tests/in_run.hpp"

namespace stages::cuda_mutants {
namespace {

using Problem = SpmvProblem<float>;

Problem problem() {
  return make_spmv_problem<float>("a", generated<float>("gen:uniform:n=600,per_row=10"));
}

TEST(InRun, AnEntryThatMultipliesThereIsRight) {
  GpuExec exec;
  const Entry entry = in_run_entry(InRunFault::none);
  EXPECT_EQ(check_entry(entry, problem(), exec).failure, "");
  EXPECT_EQ(not_counted_in_run(entry, problem(), exec), "");
}

TEST(InRun, TheCheckTellsWhatIsMultipliedAfterItOrReturnedAgain) {
  GpuExec exec;
  for (const InRunFault fault : {InRunFault::multiplies_in_fetch, InRunFault::first_answer}) {
    const std::string said = check_entry(in_run_entry(fault), problem(), exec).failure;
    EXPECT_NE(said.find("it is the product of the first: kept, or made by load, reset or fetch"),
              std::string::npos)
        << said;
  }
}

TEST(InRun, CountsTellWhatTheCheckCannot) {
  GpuExec exec;
  struct Told {
    InRunFault fault;
    std::string which, what;
  };
  const std::string least = " bytes in run(), and such a product needs";
  for (const Told& told : {
           Told{InRunFault::copies_from_load, "the run after load(): its kernels read 0", least},
           {InRunFault::copies_by_a_kernel, "the run after load(): its kernels read 2,400", least},
           {InRunFault::on_the_host, "the run after load(): its kernels read 0", least},
           {InRunFault::replays, "the run after that: its kernels read 0", least},
           {InRunFault::in_another_stream, "work that run() has begun", "in a stream that nobody waits for"},
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
