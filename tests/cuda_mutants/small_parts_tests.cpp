// Entries that do large problems part by part, with parts so small that small problems have many: panels of C
// in step 3, tiles of x in step 4.

#include <gtest/gtest.h>

#include "03_cuda_naive/stage.hpp"
#include "04_cuda_shared/stage.hpp"
#include "06_cuda_register/stage.hpp"
#include "08_spgemm_multigpu/stage.hpp"
#include "common/battery/battery.hpp"
#include "common/battery/matrices.hpp"
#include "common/gpu/exec.hpp"
#include "common/gpu/facts.hpp"
#include "common/matrix/convert.hpp"
#include "tests/reached.hpp"

namespace stages {
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

using matrices::Matrix;

template <class T>
std::shared_ptr<const Csr<T>> shared(const Matrix& m) {
  return std::make_shared<const Csr<T>>(convert_values<T>(m));
}

template <class Problem>
void expect_good(const Registry& registry, const Problem& problem) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  GpuExec exec;
  for (const Entry& entry : registry.entries()) {
    EXPECT_EQ(check_entry(entry, problem, exec).failure, "") << entry.name << " on " << problem.name;
  }
}

template <class T>
void multiply_by_panels() {
  using namespace matrices;
  Registry registry;
  add_dense_output(registry, "panels_of_a_row", 1);
  add_dense_output(registry, "panels_of_17_rows", 17 * 51 * sizeof(T));
  expect_good(registry,
              make_spgemm_problem("uneven", shared<T>(uneven(70, 40, 5)), shared<T>(uneven(40, 51, 6))));
  expect_good(registry, make_spgemm_problem("gaps", shared<T>(gaps(64, 49)), shared<T>(gaps(49, 51))));
  expect_good(registry, make_spgemm_problem("nothing", shared<T>(empty(35, 9)), shared<T>(dense(9, 51))));
}

TEST(SmallParts, DenseOutputInManyPanels) {
  multiply_by_panels<float>();
  multiply_by_panels<double>();
}

/// Tiles of x hold 4096 columns: these matrices fill one, two, two and a bit, and one less a column.
template <class T>
void multiply_by_tiles() {
  using namespace matrices;
  Registry registry;
  add_04_cuda_shared(registry);
  for (const Index columns : {4095, 4096, 4097, 8192, 8705}) {
    expect_good(registry,
                make_spmv_problem(fmt::format("{} columns", columns), shared<T>(dense(3, columns))));
  }
  expect_good(registry, make_spmv_problem("ramp", shared<T>(ramp(70, 100))));
}

TEST(SmallParts, SharedMemoryInManyTiles) {
  multiply_by_tiles<float>();
  multiply_by_tiles<double>();
}

template <class Problem>
bool takes(const Entry& entry, const Problem& problem) {
  GpuExec exec;
  return !entry.on<Problem>().refuse(problem, exec);
}

TEST(Refusals, OfAVectorBeginWhereSharedMemoryEnds) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  Registry registry;
  add_one_launch(registry);
  const auto fits = static_cast<Index>(device_facts().shared_per_block_optin / sizeof(float));
  for (const Index more : {0, 1}) {
    const auto a = shared<float>(matrices::strided(3, fits + more, 4096));
    EXPECT_EQ(takes(registry.entries().front(), make_spmv_problem("wide", a)), more == 0);
  }
}

/// Rows of more products than the table has slots, so that results are counted to the end.
TEST(Refusals, OfARowBeginWhereTheTableEnds) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  Registry registry;
  add_hash_fixed_table(registry);
  for (const Index results : {2048, 2049}) {
    const std::vector<Index> lengths{results, 2060, results};  // the second row of B is not used
    const auto problem = make_spgemm_problem("long_row", shared<float>(matrices::strided(1, 3, 2)),
                                             shared<float>(matrices::with_row_lengths(lengths)));
    EXPECT_EQ(takes(registry.entries().front(), problem), results == 2048);
  }
}

}  // namespace
}  // namespace stages
