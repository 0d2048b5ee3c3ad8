#include "02_mpi/stage.hpp"

namespace stages {

void add_02_mpi(Registry& registry) {
  add_spmv_halo(registry);
  add_spmm_halo(registry);
  add_scatter_gather(registry);
  add_balanced(registry);
  add_shared_window(registry);
  add_distributed(registry);
}

}  // namespace stages
