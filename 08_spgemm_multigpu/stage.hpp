#pragma once
// The entries of step 8, in the order in which a student meets them: sparse times sparse by hashing, on one
// GPU and on several.

#include <array>

#include "08_spgemm_multigpu/fast/binned.hpp"
#include "common/harness/registry.hpp"

namespace stages {

/// All entries below.
void add_08_spgemm_multigpu(Registry& registry);

void add_hash_fixed_table(Registry& registry);
/// Slots of the tables in shared memory, powers of two; others are for tests, which want long rows in small
/// matrices.
inline constexpr Index kOneTableSlots = 8192;
using BinSlots = std::array<Index, 4>;
inline constexpr BinSlots kBinSlots = {128, 1024, 4096, kOneTableSlots};
void add_hash_warp_per_row(Registry& registry,
                           const std::string& name = "08_spgemm_multigpu/hash_warp_per_row",
                           Index slots = kOneTableSlots);
void add_rows_of_b(Registry& registry, const std::string& name = "08_spgemm_multigpu/rows_of_b",
                   Index slots = kOneTableSlots);
void add_bins(Registry& registry, const std::string& name = "08_spgemm_multigpu/bins",
              const BinSlots& slots = kBinSlots);
void add_sorted_rows(Registry& registry, const std::string& name = "08_spgemm_multigpu/sorted_rows",
                     const BinSlots& slots = kBinSlots);
void add_bitmaps(Registry& registry, const std::string& name = "08_spgemm_multigpu/bitmaps",
                 const BinSlots& slots = kBinSlots);
void add_binned(Registry& registry, const std::string& name = "08_spgemm_multigpu/binned",
                const spgemm::Settings& settings = {});
void add_structure_reuse(Registry& registry, const std::string& name = "08_spgemm_multigpu/structure_reuse",
                         const spgemm::Settings& settings = {});
/// Where the build has MPI.
void add_multi_gather(Registry& registry, const std::string& name = "08_spgemm_multigpu/multi_gather",
                      const spgemm::Settings& settings = {});
void add_multi_gather_hash(Registry& registry);
void add_multi_blocks(Registry& registry, const std::string& name = "08_spgemm_multigpu/multi_blocks",
                      const spgemm::Settings& settings = {});

}  // namespace stages
