// A step that `stages new` made is rejected until its holes are filled; then it passes the battery.

#include <gtest/gtest.h>

#include "common/battery/battery.hpp"
#include "common/gpu/exec.hpp"

namespace stages {

void add_10_spmv_cpp(Registry&);
void add_10_spmm_cpp(Registry&);
void add_10_spgemm_cpp(Registry&);
void add_10_spmv_cu(Registry&);
void add_10_spmm_cu(Registry&);
void add_10_spgemm_cu(Registry&);
void add_20_spmv_cpp(Registry&);
void add_20_spmm_cpp(Registry&);
void add_20_spgemm_cpp(Registry&);
void add_20_spmv_cu(Registry&);
void add_20_spmm_cu(Registry&);
void add_20_spgemm_cu(Registry&);

namespace {

struct Step {
  const char* name;
  void (*as_made)(Registry&);
  void (*filled)(Registry&);
};

class NewStep : public testing::TestWithParam<Step> {
 protected:
  static battery::Tally run(void (*add)(Registry&)) {
    Registry registry;
    add(registry);
    const Entry& entry = registry.entries().front();
    Exec host;
    GpuExec gpu;
    // Filled, SpGEMM on a device looks at all products for each element of C: cases of little work are
    // enough.
    return battery::run<float>(entry, entry.needs.gpu ? static_cast<Exec&>(gpu) : host, battery::Size::small,
                               {.work = 1e6});
  }
};

TEST_P(NewStep, IsRejectedAsMade) {
  const battery::Tally tally = run(GetParam().as_made);
  EXPECT_GT(tally.failures.size(), 5U) << tally.text();
}

TEST_P(NewStep, PassesWhenFilled) {
  const battery::Tally tally = run(GetParam().filled);
  EXPECT_EQ(tally.objection(5), "") << tally.text();
}

INSTANTIATE_TEST_SUITE_P(Kinds, NewStep,
                         testing::Values(Step{"spmv_cpp", add_10_spmv_cpp, add_20_spmv_cpp},
                                         Step{"spmm_cpp", add_10_spmm_cpp, add_20_spmm_cpp},
                                         Step{"spgemm_cpp", add_10_spgemm_cpp, add_20_spgemm_cpp},
                                         Step{"spmv_cu", add_10_spmv_cu, add_20_spmv_cu},
                                         Step{"spmm_cu", add_10_spmm_cu, add_20_spmm_cu},
                                         Step{"spgemm_cu", add_10_spgemm_cu, add_20_spgemm_cu}),
                         [](const auto& step) { return std::string(step.param.name); });

}  // namespace
}  // namespace stages
