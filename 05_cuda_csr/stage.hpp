#pragma once
// The entries of step 5, in the order in which a student meets them: only the non-zeros are stored.

#include "common/harness/registry.hpp"

namespace stages {

/// All entries below.
void add_05_cuda_csr(Registry& registry);

void add_two_arrays(Registry& registry);
void add_equal_rows(Registry& registry);
void add_thread_per_row(Registry& registry);
void add_full_warp_per_row(Registry& registry);
void add_warp_per_row(Registry& registry);
void add_balanced_shares(Registry& registry);
// fast/, for experts.
void add_balanced(Registry& registry);
void add_sliced(Registry& registry);
void add_adaptive(Registry& registry);

}  // namespace stages
