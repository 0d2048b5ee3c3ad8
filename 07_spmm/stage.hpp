#pragma once
// The entries of step 7, in the order in which a student meets them: CSR times a dense matrix on a GPU.

#include <string>

#include "common/harness/registry.hpp"

namespace stages {

/// All entries below.
void add_07_spmm(Registry& registry);

namespace spmm {

void add_thread_per_row(Registry& registry);
void add_warp_per_row(Registry& registry);
void add_split_rows(Registry& registry);
void add_merged_short_rows(Registry& registry);
void add_merged_after_sorting(Registry& registry);
// `share`: non-zeros of a share; 0: by the rule of share_of() in shares.hpp.
void add_equal_shares(Registry& registry, const std::string& name = "07_spmm/equal_shares", Index share = 0);
void add_loads_ahead(Registry& registry, const std::string& name = "07_spmm/loads_ahead", Index share = 0);
void add_vector_lanes(Registry& registry, const std::string& name = "07_spmm/vector_lanes", Index share = 0);
void add_strips(Registry& registry, const std::string& name = "07_spmm/strips", Index share = 0);
void add_tensor_tiles(Registry& registry, const std::string& name = "07_spmm/tensor_tiles");
// fast/, for experts.
void add_balanced(Registry& registry);
void add_dense_tiles(Registry& registry);
void add_whole_rows(Registry& registry);
void add_adaptive(Registry& registry);

}  // namespace spmm
}  // namespace stages
