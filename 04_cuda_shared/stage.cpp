#include "04_cuda_shared/stage.hpp"

namespace stages {

void add_04_cuda_shared(Registry& registry) {
  for (const auto add : {add_shared_memory, add_batched_loads, add_shared_vector, add_shared_vector_and_row})
    add(registry);
}

}  // namespace stages
