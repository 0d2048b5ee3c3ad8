#pragma once
// The entries of step 4, in the order in which a student meets them: what threads of a block share.

#include "common/harness/registry.hpp"

namespace stages {

/// All entries below.
void add_04_cuda_shared(Registry& registry);

void add_shared_memory(Registry& registry);
void add_batched_loads(Registry& registry);
void add_shared_vector(Registry& registry);
void add_shared_vector_and_row(Registry& registry);

}  // namespace stages
