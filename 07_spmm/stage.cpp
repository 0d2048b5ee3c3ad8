#include "07_spmm/stage.hpp"

namespace stages {

void add_07_spmm(Registry& registry) {
  spmm::add_thread_per_row(registry);
  spmm::add_warp_per_row(registry);
  spmm::add_split_rows(registry);
  spmm::add_merged_short_rows(registry);
  spmm::add_equal_shares(registry);
  spmm::add_loads_ahead(registry);
  spmm::add_vector_lanes(registry);
  spmm::add_strips(registry);
  spmm::add_balanced(registry);
  spmm::add_dense_tiles(registry);
  spmm::add_whole_rows(registry);
  spmm::add_adaptive(registry);
}

}  // namespace stages
