#pragma once
// GPU entries for SpMM with one planted fault each, and the same without.

#include "common/harness/registry.hpp"

namespace stages::cuda_mutants {

/// Faults of chunks of rows that add to C by atomics. B and C are row-major for these.
enum class AtomicFault {
  none,
  missing_tail_strip,  ///< only full strips of 32 columns are computed
  unzeroed,            ///< C is added to, and nobody has set it
  set_once,            ///< C is set before the first run only
  zeroes_padding,      ///< all of C is set to zero, its padding included
  beta_ignored,        ///< C is set to zero where beta asks for the old one
  b_without_padding,   ///< the leading dimension of B is taken to be the number of columns
  c_with_ld_of_b,      ///< C is written with the leading dimension of B
  last_chunk_lost,     ///< the chunk that is not full
  plain_add,           ///< chunks add without atomics
};
Entry atomic_entry(AtomicFault fault);

/// Faults of rows cut in two, whose parts a second kernel adds to the row.
enum class PartsFault {
  none,
  fix_up_lost,      ///< the second kernel is not launched
  fix_up_first,     ///< it comes before the rows are stored, which overwrite what it has added
  one_part_lost,    ///< of a row's parts the second kernel takes all but one
  wrong_slot,       ///< parts are left where the neighbouring row's belong
  alpha_forgotten,  ///< parts are added as they are
};
Entry parts_entry(PartsFault fault);

/// Faults of equal shares of the non-zeros, whose partial sums a second kernel adds up.
enum class SpmmShareFault {
  none,
  slots_not_added,     ///< the second kernel sets empty rows, and adds nothing
  last_share_dropped,  ///< the share that is not full
  strip_tail_lost,     ///< only full strips of 32 columns are computed
  empty_rows_unset,    ///< nobody stores to rows without non-zeros
};
Entry spmm_share_entry(SpmmShareFault fault);

/// Faults of tiles on tensor cores. B and C are row-major for these, and values are floats.
enum class TensorFault {
  none,
  big_parts_alone,    ///< one product of three: 11 bits of each float
  small_b_lost,       ///< two of three
  swapped_fragment,   ///< two of a lane's four elements of A change places
  last_tile_lost,     ///< of 16 rows
  last_columns_lost,  ///< only full tiles of 8 columns of C are computed
  short_rows_lost,    ///< nobody stores to rows that are in no tile
};
Entry tensor_entry(TensorFault fault);

}  // namespace stages::cuda_mutants
