#include "04_cuda_shared/stage.hpp"

namespace stages {

void add_04_cuda_shared(Registry& registry) {
  add_shared_memory(registry);
  add_batched_loads(registry);
  add_shared_vector(registry);
  add_shared_vector_and_row(registry);
}

}  // namespace stages
