#include "08_spgemm_multigpu/stage.hpp"

namespace stages {

void add_08_spgemm_multigpu(Registry& registry) {
  add_hash_fixed_table(registry);
  add_hash_warp_per_row(registry);
  add_rows_of_b(registry);
  add_bins(registry);
  add_sorted_rows(registry);
  add_bitmaps(registry);
  add_binned(registry);
  add_structure_reuse(registry);
#ifdef STAGES_HAVE_MULTIGPU
  add_multi_gather(registry);
  add_multi_gather_hash(registry);
  add_multi_blocks(registry);
#endif
}

}  // namespace stages
