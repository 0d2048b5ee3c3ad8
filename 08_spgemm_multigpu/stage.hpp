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
/// Sizes of rungs 2 and 3; others are for tests, which want long rows in small matrices. Powers of two.
struct HashSizes {
  Index count_slots = 16384;    ///< of the table in shared memory that counts: 64 KB
  Index shared_results = 4096;  ///< rows with more keep their sums in global memory
  Index most_probes = 256;      ///< that a column may need for its slot while counting
};
void add_hash_warp_per_row(Registry& registry,
                           const std::string& name = "08_spgemm_multigpu/hash_warp_per_row",
                           const HashSizes& sizes = {});
void add_rows_of_b(Registry& registry, const std::string& name = "08_spgemm_multigpu/rows_of_b",
                   const HashSizes& sizes = {});
/// Sizes of rungs 4 to 6; others are for tests, as above.
struct BinSizes {
  std::array<Index, 3> slots = {128, 1024, 4096};  ///< of the tables in shared memory; rows fill them by half
  Index count_slots = 16384;                       ///< rungs 4 and 5, as above
  Index most_probes = 256;                         ///< rungs 4 and 5, as above
  Index span = 32768;                              ///< rung 6: columns of a bitmap, at most as many as here
};
void add_bins(Registry& registry, const std::string& name = "08_spgemm_multigpu/bins",
              const BinSizes& sizes = {});
void add_sorted_rows(Registry& registry, const std::string& name = "08_spgemm_multigpu/sorted_rows",
                     const BinSizes& sizes = {});
void add_bitmaps(Registry& registry, const std::string& name = "08_spgemm_multigpu/bitmaps",
                 const BinSizes& sizes = {});
void add_binned(Registry& registry, const std::string& name = "08_spgemm_multigpu/binned",
                const spgemm::Settings& settings = {});
void add_structure_reuse(Registry& registry, const std::string& name = "08_spgemm_multigpu/structure_reuse",
                         const spgemm::Settings& settings = {});
/// Where the build has MPI.
void add_multi_gather(Registry& registry, const std::string& name = "08_spgemm_multigpu/multi_gather",
                      const spgemm::Settings& settings = {});
void add_multi_gather_hash(Registry& registry,
                           const std::string& name = "08_spgemm_multigpu/multi_gather_hash");
void add_multi_blocks(Registry& registry, const std::string& name = "08_spgemm_multigpu/multi_blocks",
                      const spgemm::Settings& settings = {});

}  // namespace stages
