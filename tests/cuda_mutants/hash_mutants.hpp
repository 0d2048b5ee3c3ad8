#pragma once
// SpGEMM by hash tables and by windows with one planted fault each, and the same without.

#include "common/harness/registry.hpp"

namespace stages::cuda_mutants {

/// Faults of a hash table a row, D4's among them.
enum class HashFault {
  none,
  full_table_probes_on,  ///< D4 (a): a probe in a full table never ends
  full_table_drops,      ///< what finds no slot in a full table is left out (a row that does not fit)
  narrow_offsets,        ///< D4 (b): row pointers wrap around; 16 bits stand for 32, and C for a larger one
  unsorted,              ///< D4 (e): columns in the order of the slots
  order_of_arrival,      ///< D4 (e): sums run in another order in each run, as with atomicAdd
  racing_sums,           ///< lanes add to one sum at a time without atomics
  first_entries_only,    ///< of a row of A, what the lanes take at their first turn
  keys_not_cleared,      ///< the next row finds the last one's columns
  keys_not_compared,     ///< a slot that is taken is taken for one's own
  prepared_values,       ///< the values that prepare saw, not those that were loaded
  no_syncwarp,           ///< lanes look into the table before all of it is cleared
};
Entry hash_entry(HashFault fault);

/// Faults of dense windows that move along a row.
enum class WindowFault {
  none,
  last_window_lost,  ///< the columns beyond the last full window
  sums_not_cleared,  ///< sums of the window before are added to
  edge_twice,        ///< the column between two windows belongs to both
};
Entry window_entry(WindowFault fault);

/// Faults of step 8's rungs beyond the tables.
enum class LadderFault {
  none,
  batch_begins_again,  ///< rung 2: each batch of long rows begins at the start of the list
  border_in_no_bin,    ///< rung 4: a row as long as its bin goes up to is in no bin
  unnumbered_keys,     ///< rung 5: the sort moves columns, and not the products with them
  runs_cut_at_lanes,   ///< rung 5: a result begins at the first key of each lane, too
  words_not_numbered,  ///< rung 6: the bits before a word are those of the word before it alone
};
/// Without a fault: the form that this one has.
Entry ladder_entry(LadderFault form, LadderFault fault);

}  // namespace stages::cuda_mutants
