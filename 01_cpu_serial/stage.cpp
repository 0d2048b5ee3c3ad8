#include "01_cpu_serial/stage.hpp"

namespace stages {

void add_01_cpu_serial(Registry& registry) {
  cpu_serial::add_dense_spmv_plain(registry);
  cpu_serial::add_csr_spmv_plain(registry);
  cpu_serial::add_csr_spmm_plain(registry);
  cpu_serial::add_two_pointer_dot(registry);
  cpu_serial::add_gustavson_sorted(registry);
  cpu_serial::add_gustavson_dense(registry);
  cpu_serial::add_gustavson_hash(registry);
  cpu_serial::add_hypersparse(registry);
  cpu_serial::add_dense_spmv(registry);
  cpu_serial::add_csr_spmv(registry);
  cpu_serial::add_csr_spmm(registry);
  cpu_serial::add_gustavson_adaptive(registry);
}

}  // namespace stages
