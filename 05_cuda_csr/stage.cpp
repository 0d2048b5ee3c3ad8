#include "05_cuda_csr/stage.hpp"

namespace stages {

void add_05_cuda_csr(Registry& registry) {
  add_two_arrays(registry);
  add_equal_rows(registry);
  add_thread_per_row(registry);
  add_full_warp_per_row(registry);
  add_warp_per_row(registry);
  add_balanced_shares(registry);
  add_balanced(registry);
  add_equal_rows_16bit(registry);
  add_column_bands(registry);
  add_adaptive(registry);
}

}  // namespace stages
