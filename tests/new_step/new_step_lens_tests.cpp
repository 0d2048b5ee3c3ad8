// The lens on a step that `stages new` made and a student has filled: its lines, with what they ask of memory.

#include <gtest/gtest.h>

#include <memory>

#include "common/gpu/exec.hpp"
#include "common/harness/product.hpp"
#include "common/lens/show.hpp"
#include "common/matrix/generate.hpp"

namespace stages {

void add_20_spmv_cu(Registry&);

namespace {

TEST(NewStepLens, ShowsTheLinesOfTheStep) {
  Registry registry;
  add_20_spmv_cu(registry);
  const Entry& entry = registry.entries().front();
  const std::string matrix = "gen:uniform:n=64,per_row=4";
  const auto a = std::make_shared<const Csr<float>>(generate<float>(matrix));
  GpuExec exec;
  const LensView view = look_at(entry.name, one_product(entry, make_spmv_problem<float>(matrix, a), exec));
  ASSERT_EQ(view.problem, "");
  ASSERT_EQ(view.kernels.size(), 1u);
  EXPECT_GE(view.kernels[0].sites.size(), 5u);  // two of row_ptr, a value, a column, x; and the store of y
  for (const LensSite& site : view.kernels[0].sites) EXPECT_TRUE(site.lines[0].file.ends_with("20_spmv.cu"));
  EXPECT_NE(lens_text(view, false).find("sum += a.values[p] * x[a.col_idx[p]];"), std::string::npos);
}

}  // namespace
}  // namespace stages
