#pragma once
// The entries of step 2, in the order in which a student meets them. Each rank is one thread.

#include "common/harness/registry.hpp"

namespace stages {

/// All entries below.
void add_02_mpi(Registry& registry);

void add_mpi_scatter_gather(Registry& registry);
void add_mpi_gustavson(Registry& registry);
void add_mpi_balanced(Registry& registry);
void add_mpi_shared_window(Registry& registry);
void add_mpi_distributed(Registry& registry);
void add_mpi_spmv_halo(Registry& registry);
void add_mpi_spmv_overlap(Registry& registry);
void add_mpi_spmm_halo(Registry& registry);
void add_mpi_columns_of_b(Registry& registry);

}  // namespace stages
