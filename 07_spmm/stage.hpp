#pragma once
// The entries of step 7, in the order in which a student meets them: CSR times a dense matrix on a GPU.

#include <string>

#include "common/harness/registry.hpp"

namespace stages {

/// All entries below.
void add_07_spmm(Registry& registry);

namespace spmm {

/// Whether `balanced` copies B strip by strip first (fast/packed_b.hpp).
enum class Packing { by_rule, never, always };

/// How `balanced` cuts, and how a group of lanes goes through a share. What is 0 is derived from the matrix
/// and the device: see fast/granularity.hpp.
struct Granularity {
  Index share = 0;  ///< non-zeros of a share
  /// Columns of B and C that are done at once: 8 or 16; where B is aligned, 128 or 256 bytes of them, or 128
  /// floats on 16 lanes with 8 loads; else 32, 64 or 96.
  Index strip = 0;
  /// Of a group: 1 for up to 16 bytes of a row of B; with strips of 8 or 16 columns as many, or, where B is
  /// aligned, 4 for 32 or 64 bytes; with wider ones, where B is aligned, 8 or 16, which take a vector of 16
  /// bytes each; else 32.
  Index lanes = 0;
  Index loads = 0;  ///< vectors that a lane asks for before it uses the first: 4 or 8
  Index bands = 0;  ///< of columns, by which the shares are sorted; 1: they come in the order of the rows
  Index block = 0;  ///< threads: 128
  Packing packing = Packing::by_rule;  ///< always: for strips of 128 or 256 bytes, with a vector a lane
  Index slack = 0;  ///< non-zeros by which a boundary of shares may move back to the beginning of its row
};

/// How `dense_tiles` goes through tiles. What is 0 is derived from the matrix and the device.
struct TileForm {
  Index warps = 0;  ///< of a block: 4, 8 or 16
  Index ahead = 0;  ///< tiles that a warp asks for at once: 1, 2 or 4
};

/// In which order `whole_rows` takes rows.
enum class RowOrder { by_rule, as_they_lie, by_length };

/// How `whole_rows` gives lanes to rows. What is left open is derived from the matrix: see fast/whole_rows.hpp.
struct RowForm {
  RowOrder order = RowOrder::by_rule;
  /// Non-zeros of a row that one group of lanes takes if rows come by length, in whole batches of 8; longer
  /// ones get a warp or a block. As they lie, each row gets a group.
  Index nonzeros = 0;
  Offset of_warp = 0;  ///< those that a warp takes; at least as many
  Index lanes = 0;     ///< of a group where B has more than a line: 8 or 16
};

void add_thread_per_row(Registry& registry);
void add_warp_per_row(Registry& registry);
void add_split_rows(Registry& registry);
void add_merged_short_rows(Registry& registry);
void add_merged_after_sorting(Registry& registry);
// `share`: non-zeros of a share; 0: by the rule of share_of() in shares.hpp.
void add_equal_shares(Registry& registry, const std::string& name = "07_spmm/equal_shares", Index share = 0);
void add_loads_ahead(Registry& registry, const std::string& name = "07_spmm/loads_ahead", Index share = 0);
void add_vector_lanes(Registry& registry, const std::string& name = "07_spmm/vector_lanes", Index share = 0);
void add_strips(Registry& registry, const std::string& name = "07_spmm/strips", Index share = 0);
void add_tensor_tiles(Registry& registry, const std::string& name = "07_spmm/tensor_tiles");
// fast/, for experts.
void add_balanced(Registry& registry, const std::string& name = "07_spmm/balanced",
                  Granularity granularity = {});
void add_dense_tiles(Registry& registry, const std::string& name = "07_spmm/dense_tiles", TileForm form = {});
void add_whole_rows(Registry& registry, const std::string& name = "07_spmm/whole_rows", RowForm form = {});
void add_adaptive(Registry& registry, const std::string& name = "07_spmm/adaptive");

}  // namespace spmm
}  // namespace stages
