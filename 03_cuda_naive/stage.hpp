#pragma once
// The entries of step 3, in the order in which a student meets them. One GPU, one thread per result.

#include "common/harness/registry.hpp"

namespace stages {

/// All entries below.
void add_03_cuda_naive(Registry& registry);

void add_dense_row_major(Registry& registry);
void add_dense_transposed(Registry& registry);
void add_dense_padded(Registry& registry);
void add_dense_output_strided(Registry& registry);
void add_dense_output_by_rows(Registry& registry);

/// C is made in panels of rows whose dense form takes at most this many bytes.
inline constexpr std::size_t kPanelBytes = std::size_t{1} << 30;
/// `panel_bytes` is for tests, which want several panels of small matrices.
void add_dense_output(Registry& registry, const std::string& name = "03_cuda_naive/dense_output",
                      std::size_t panel_bytes = kPanelBytes);

}  // namespace stages
