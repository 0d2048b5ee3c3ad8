#include "01_cpu_serial/stage.hpp"

namespace stages {

void add_01_cpu_serial(Registry& registry) {
  add_dense_spmv(registry);
  add_csr_spmv(registry);
  add_csr_spmm(registry);
  add_two_pointer_dot(registry);
  add_gustavson_dense(registry);
  add_gustavson_hash(registry);
  add_hypersparse(registry);
  add_gustavson_adaptive(registry);
}

}  // namespace stages
