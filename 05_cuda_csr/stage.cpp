#include "05_cuda_csr/stage.hpp"

namespace stages {

void add_05_cuda_csr(Registry& registry) {
  for (const auto add : {add_two_arrays, add_equal_rows, add_thread_per_row, add_full_warp_per_row,
                         add_warp_per_row, add_balanced_shares, add_balanced, add_sliced, add_adaptive})
    add(registry);
}

}  // namespace stages
