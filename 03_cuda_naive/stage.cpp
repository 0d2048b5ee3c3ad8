#include "03_cuda_naive/stage.hpp"

namespace stages {

void add_03_cuda_naive(Registry& registry) {
  add_dense_row_major(registry);
  add_dense_transposed(registry);
  add_dense_padded(registry);
  add_dense_output_strided(registry);
  add_dense_output_by_rows(registry);
}

}  // namespace stages
