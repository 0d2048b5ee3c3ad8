#include "02_mpi/stage.hpp"

namespace stages {

void add_02_mpi(Registry& registry) {
  for (const auto add : {add_mpi_scatter_gather, add_mpi_gustavson, add_mpi_balanced, add_mpi_shared_window,
                         add_mpi_distributed, add_mpi_spmv_halo, add_mpi_spmv_overlap, add_mpi_spmm_halo,
                         add_mpi_columns_of_b})
    add(registry);
}

}  // namespace stages
