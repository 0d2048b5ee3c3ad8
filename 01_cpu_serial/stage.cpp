#include "01_cpu_serial/stage.hpp"

namespace stages {

void add_01_cpu_serial(Registry& registry) {
  using namespace cpu_serial;
  for (const auto add : {add_dense_spmv_plain, add_csr_spmv_plain, add_csr_spmm_plain, add_two_pointer_dot,
                         add_gustavson_sorted, add_gustavson_dense, add_gustavson_hash, add_hypersparse,
                         add_dense_spmv, add_csr_spmv, add_csr_spmm, add_gustavson_adaptive})
    add(registry);
}

}  // namespace stages
