// The program `spmm_study`: the entries of step 7 again and again with other constants, under the same
// commands as `stages`. It shows what D3's constants are worth, which its authors tuned for each matrix, and
// the two numbers of `balanced`.
//
//   spmm_study run -m gen:twin:am --op spmm --n-cols 32 --json study.json

#include "07_spmm/stage.hpp"
#include "common/cli/program.hpp"

namespace stages {

void add_entries(Registry& registry) {
  add_07_spmm(registry);
  for (const Index step : {64, 128, 256, 512, 1024, 4096}) {
    spmm::add_split_rows(registry, fmt::format("study/split_rows:step={}", step), {.step = step});
  }
  for (const Index short_row : {3, 8, 16}) {
    for (const Index rows : {2, 5, 15}) {
      spmm::add_merged_short_rows(registry,
                                  fmt::format("study/merged_short_rows:short={},rows={}", short_row, rows),
                                  {.merged_rows = rows, .short_row = short_row});
    }
  }
  for (const Index per_lane : {1, 2}) {
    spmm::add_warp_per_row(registry, fmt::format("study/warp_per_row:per_lane={}", per_lane),
                           {.per_lane = per_lane});
  }
  for (const Index share : {32, 64, 128, 256, 512, 1024}) {
    for (const Index strip : {32, 64}) {
      spmm::add_balanced(registry, fmt::format("study/balanced:share={},strip={}", share, strip),
                         {.share = share, .strip = strip});
    }
  }
}

std::vector<LeftOut> left_out() {
  return {};
}

}  // namespace stages
