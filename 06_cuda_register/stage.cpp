#include "06_cuda_register/stage.hpp"

namespace stages {

void add_06_cuda_register(Registry& registry) {
  add_one_launch(registry);
  add_row_per_thread(registry);
  add_row_per_sub_warp(registry);
  add_matrix_copies(registry);
  add_vector_batches(registry);
  add_packed_shares(registry);
  add_bank_order(registry);
  add_stream_resident(registry);
  add_chain_words(registry);
  add_chain_cluster(registry);
}

}  // namespace stages
