#pragma once
// GPU entries with one planted fault each, for the checker to reject on both backends, and the same without.

#include "common/harness/registry.hpp"

namespace stages::cuda_mutants {

/// Faults of a CSR kernel, a warp per row.
enum class RowFault {
  none,
  failed_launch,   ///< D2 (a), (b): the launch is refused, nobody looks, and the time is taken all the same
  missing_tail,    ///< D1 (d): the grid is rows / block, rounded down
  half_reduced,    ///< the sum over lanes starts at a distance of 8: half of them are left out
  wrong_mask,      ///< all lanes shuffle under a mask of 16 (the executor reports it; hardware may not)
  unzeroed,        ///< y is added to, and nobody has zeroed it
  narrow_columns,  ///< columns in 16 bits, whatever their number
  one_vector,      ///< every product of a stream reads the first vector
};
Entry row_entry(RowFault fault);

/// Faults of the dense kernel with tiles of x in shared memory. One warp copies for all, the slowest.
enum class TileFault {
  none,
  no_barrier_after_copy,   ///< tiles are read before they are there
  no_barrier_before_copy,  ///< tiles are overwritten while others still read them
  missing_last_tile,       ///< only full tiles are multiplied
  tail_leaves_early,       ///< threads beyond the last row leave, and with them those that copy
};
Entry tile_entry(TileFault fault);

/// Faults of a row in several chunks, added up by the last to arrive.
enum class HubFault {
  none,
  counter_not_reset,  ///< the second run finds the counter full
  adds_too_early,     ///< the first to arrive adds up, not the last
  last_chunk_lost,    ///< the chunk that is not full
  no_fence,           ///< a counter may be seen before its sum (only the search for races tells)
};
Entry hub_entry(HubFault fault);

/// Faults of equal shares, whose carries a second kernel adds.
enum class ShareFault {
  none,
  carries_forgotten,  ///< there is no second kernel
  one_carry,          ///< of a row in several shares only the last carry is added
  carries_first,      ///< the second kernel comes first, and adds what the product before has left
  no_syncwarp,        ///< products are read before they are there (only the search for races tells)
};
Entry share_entry(ShareFault fault);

/// Faults of D1's dense output. B is held by columns with each value split into two halves, as a file with
/// repeated entries gives it.
enum class DotFault {
  none,
  overruns_row,        ///< D1 (a): A's pointer runs on into the next row
  repeat_counts_once,  ///< D1 (b): of repeated entries of B only one counts
  columns_by_rows,     ///< D1 (c): the columns of B are built by a loop over its rows
  missing_tail,        ///< D1 (d): the grid is m / 16 by n / 16, rounded down
};
Entry dot_entry(DotFault fault);

}  // namespace stages::cuda_mutants
