#include "02_mpi/stage.hpp"

namespace stages {

void add_02_mpi(Registry& registry) {
  add_mpi_scatter_gather(registry);
  add_mpi_gustavson(registry);
  add_mpi_balanced(registry);
  add_mpi_shared_window(registry);
  add_mpi_distributed(registry);
  add_mpi_spmv_halo(registry);
  add_mpi_spmv_overlap(registry);
  add_mpi_spmm_halo(registry);
}

}  // namespace stages
