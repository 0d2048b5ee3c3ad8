#pragma once
// The entries of step 1, in the order in which a student meets them. One thread throughout.

#include "common/harness/registry.hpp"

namespace stages {

/// All entries below.
void add_01_cpu_serial(Registry& registry);

namespace cpu_serial {

void add_dense_spmv_plain(Registry& registry);
void add_csr_spmv_plain(Registry& registry);
void add_csr_spmm_plain(Registry& registry);
void add_two_pointer_dot(Registry& registry);
void add_gustavson_sorted(Registry& registry);
void add_gustavson_dense(Registry& registry);
void add_gustavson_hash(Registry& registry);
void add_hypersparse(Registry& registry);
// In fast/: for experts.
void add_dense_spmv(Registry& registry);
void add_csr_spmv(Registry& registry);
void add_csr_spmm(Registry& registry);
void add_gustavson_adaptive(Registry& registry);

}  // namespace cpu_serial
}  // namespace stages
