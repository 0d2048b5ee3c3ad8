#pragma once
// The entries of step 7, in the order in which a student meets them: CSR times a dense matrix on a GPU.

#include "common/harness/registry.hpp"

namespace stages {

/// All entries below.
void add_07_spmm(Registry& registry);

namespace spmm {

void add_thread_per_row(Registry& registry);
void add_warp_per_row(Registry& registry);
void add_split_rows(Registry& registry);
void add_merged_short_rows(Registry& registry);
void add_equal_shares(Registry& registry);
void add_loads_ahead(Registry& registry);
void add_vector_lanes(Registry& registry);
void add_strips(Registry& registry);
// fast/, for experts.
void add_balanced(Registry& registry);
void add_dense_tiles(Registry& registry);
void add_whole_rows(Registry& registry);
void add_adaptive(Registry& registry);

}  // namespace spmm
}  // namespace stages
