// Where entries begin to refuse.

#include "06_cuda_register/stage.hpp"
#include "08_spgemm_multigpu/stage.hpp"
#include "tests/cuda_mutants/support.hpp"
#include "tests/reached.hpp"

namespace stages::cuda_mutants {
namespace {

/// All tests of this program are noted, by their names.
class NotesReached final : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    note_reached(fmt::format("{}.{}", test.test_suite_name(), test.name()), "");
  }
};
const bool kNotes = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new NotesReached);  // which it then owns
  return true;
}();

using Refusals = OnDevice;

template <class Problem>
bool takes(const Registry& registry, const Problem& problem) {
  GpuExec exec;
  return !registry.entries().front().on<Problem>().refuse(problem, exec);
}

TEST_F(Refusals, OfAVectorBeginWhereSharedMemoryEnds) {
  Registry registry;
  add_one_launch(registry);
  const auto fits = static_cast<Index>(device_facts().shared_per_block_optin / sizeof(float));
  for (const Index more : {0, 1}) {
    const auto a = share<float>(matrices::strided(3, fits + more, 4096));
    EXPECT_EQ(takes(registry, make_spmv_problem("wide", a)), more == 0);
  }
}

/// Rows of more products than the table has slots, so that results are counted to the end.
TEST_F(Refusals, OfARowBeginWhereTheTableEnds) {
  Registry registry;
  add_hash_fixed_table(registry);
  for (const Index results : {2048, 2049}) {
    const std::vector<Index> lengths{results, 2060, results};  // the second row of B is not used
    const auto problem = make_spgemm_problem("long_row", share<float>(matrices::strided(1, 3, 2)),
                                             share<float>(matrices::with_row_lengths(lengths)));
    EXPECT_EQ(takes(registry, problem), results == 2048);
  }
}

}  // namespace
}  // namespace stages::cuda_mutants
