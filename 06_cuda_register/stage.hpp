#pragma once
// The entries of step 6, in the order in which a student meets them: the matrix stays in registers.

#include <limits>

#include "common/gpu/facts.hpp"
#include "common/harness/registry.hpp"

namespace stages {

/// All entries below.
void add_06_cuda_register(Registry& registry);

void add_one_launch(Registry& registry);
void add_row_per_thread(Registry& registry);
void add_row_per_sub_warp(Registry& registry);
void add_matrix_copies(Registry& registry);
void add_vector_batches(Registry& registry);
void add_packed_shares(Registry& registry);
void add_bank_order(Registry& registry);
// fast/, for experts.
void add_chain_words(Registry& registry);
void add_chain_cluster(Registry& registry);

/// Registers and bytes of local memory per thread as the compiler left them; NaN (unknown) on the executor.
/// What does not fit into registers (a spill) is one kind of local memory.
inline Metric registers_metric(const KernelFacts& facts) {
  const double value = facts.registers ? *facts.registers : std::numeric_limits<double>::quiet_NaN();
  return {"registers_per_thread", value, "registers"};
}
inline Metric local_metric(const KernelFacts& facts) {
  const double value = facts.spilled_bytes ? static_cast<double>(*facts.spilled_bytes)
                                           : std::numeric_limits<double>::quiet_NaN();
  return {"local_bytes_per_thread", value, "B"};
}

}  // namespace stages
