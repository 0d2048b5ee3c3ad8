#include "06_cuda_register/stage.hpp"

namespace stages {

void add_06_cuda_register(Registry& registry) {
  for (const auto add :
       {add_one_launch, add_row_per_thread, add_row_per_sub_warp, add_matrix_copies, add_vector_batches,
        add_packed_shares, add_bank_order, add_chain_words, add_chain_cluster})
    add(registry);
}

}  // namespace stages
