#pragma once
// The entries of step 4, in the order in which a student meets them: what threads of a block share.

#include "common/gpu/facts.hpp"
#include "common/harness/registry.hpp"

namespace stages {

/// All entries below.
void add_04_cuda_shared(Registry& registry);

/// Columns of x that a block keeps at once: 32 KB of float, 64 KB of double.
inline constexpr Index kTileColumns = 8192;
/// What a block of this device has room for beside so many bytes of static shared memory.
template <class T>
Index most_tile_columns(std::size_t static_bytes) {
  const std::size_t room = device_facts().shared_per_block_optin - static_bytes;
  return static_cast<Index>(room / sizeof(T) / 4 * 4);
}
/// `tile_columns` is for tests, which want several tiles of small matrices.
void add_shared_vector(Registry& registry, const std::string& name = "04_cuda_shared/shared_vector",
                       Index tile_columns = kTileColumns);
void add_shared_vector_and_row(Registry& registry,
                               const std::string& name = "04_cuda_shared/shared_vector_and_row",
                               Index tile_columns = kTileColumns);

}  // namespace stages
