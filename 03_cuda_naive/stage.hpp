#pragma once
// The entries of step 3, in the order in which a student meets them. One GPU, one thread per result.

#include "common/harness/registry.hpp"

namespace stages {

/// All entries below.
void add_03_cuda_naive(Registry& registry);

void add_dense_row_major(Registry& registry);
void add_dense_transposed(Registry& registry);
void add_dense_padded(Registry& registry);
void add_dense_output_strided(Registry& registry);
void add_dense_output_by_rows(Registry& registry);

}  // namespace stages
