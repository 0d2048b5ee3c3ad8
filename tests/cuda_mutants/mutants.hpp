#pragma once
// GPU entries with one planted fault each, for the checker to reject on both backends, and the same without.

#include "common/harness/registry.hpp"

namespace stages::cuda_mutants {

enum class Fault {
  none,

  // A CSR kernel, a warp per row.
  failed_launch,   ///< D2 (a), (b): the launch is refused, nobody looks, and the time is taken all the same
  missing_tail,    ///< D1 (d): the grid is rows / block, rounded down
  half_reduced,    ///< the sum over lanes starts at a distance of 8: half of them are left out
  wrong_mask,      ///< all lanes shuffle under a mask of 16 (the executor reports it; hardware may not)
  unzeroed,        ///< y or C is added to, and nobody has zeroed it
  narrow_columns,  ///< columns in 16 bits, whatever their number
  one_vector,      ///< every product of a stream reads the first vector

  // Where that kernel multiplies.
  copies_from_load,     ///< load() multiplies, and run() copies the result
  copies_by_a_kernel,   ///< the same, and a kernel copies
  replays,              ///< run() multiplies after a load, and later ones leave what is there
  multiplies_in_fetch,  ///< run() notes that it was called
  first_answer,         ///< the first result again, whatever was loaded
  on_the_host,          ///< operands go to the host, and the result comes back
  in_another_stream,    ///< that nobody waits for, and whose time nobody takes

  // The dense kernel with tiles of x in shared memory. One warp copies for all, the slowest.
  no_barrier_after_copy,   ///< tiles are read before they are there
  no_barrier_before_copy,  ///< tiles are overwritten while others still read them
  missing_last_tile,       ///< only full tiles are multiplied
  tail_leaves_early,       ///< threads beyond the last row leave, and with them those that copy

  // A row in several chunks, added up by the last to arrive.
  counter_not_reset,  ///< the second run finds the counter full
  adds_too_early,     ///< the first to arrive adds up, not the last
  last_chunk_lost,    ///< the chunk that is not full
  no_fence,           ///< a counter may be seen before its sum (only the search for races tells)

  // SpMM: equal shares of the non-zeros that add to C by atomics. B and C are row-major.
  missing_tail_strip,  ///< only full strips of 32 columns are computed
  set_once,            ///< C is set before the first run only
  zeroes_padding,      ///< all of C is set to zero, its padding included
  beta_ignored,        ///< C is set to zero where beta asks for the old one
  b_without_padding,   ///< the leading dimension of B is taken to be the number of columns
  c_with_ld_of_b,      ///< C is written with the leading dimension of B
  plain_add,           ///< shares add without atomics (only the search for races tells)

  // SpMV and SpMM: equal shares, whose partial sums a second kernel adds to the rows. B and C are row-major.
  fix_up_lost,         ///< the second kernel is not launched
  fix_up_first,        ///< it comes before the rows are stored, which overwrite what it has added
  slots_not_added,     ///< it sets empty rows, and adds nothing
  one_part_lost,       ///< of a row's parts it takes all but one
  one_carry,           ///< it takes only the last
  wrong_slot,          ///< parts are left where the neighbouring share's belong
  alpha_forgotten,     ///< parts are added as they are
  last_share_dropped,  ///< the share that is not full
  empty_rows_unset,    ///< nobody stores to rows without non-zeros

  // SpMM: tiles on tensor cores. B and C are row-major, and values are floats.
  big_parts_alone,    ///< one product of three: 11 bits of each float
  small_b_lost,       ///< two of three
  swapped_fragment,   ///< two of a lane's four elements of A change places
  last_tile_lost,     ///< of 16 rows
  last_columns_lost,  ///< only full tiles of 8 columns of C are computed
  short_rows_lost,    ///< nobody stores to rows that are in no tile

  // SpGEMM: D1's dense output. Its missing_tail is a grid of m / 16 by n / 16, rounded down. B is held by
  // columns with each value split into two halves, as a file with repeated entries gives it.
  overruns_row,        ///< D1 (a): A's pointer runs on into the next row
  repeat_counts_once,  ///< D1 (b): of repeated entries of B only one counts
  columns_by_rows,     ///< D1 (c): the columns of B are built by a loop over its rows

  // SpGEMM: a hash table a row, D4's among them.
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
  no_syncwarp,  ///< lanes look into the table before all of it is cleared (only the search for races tells)

  // SpGEMM: step 8's rungs beyond the tables, and dense windows that move along a row.
  unnumbered_keys,     ///< rung 5: the sort moves columns, and not the products with them
  runs_cut_at_lanes,   ///< rung 5: a result begins at the first key of each lane, too
  batch_begins_again,  ///< rung 2: each batch of long rows begins at the start of the list
  border_in_no_bin,    ///< rung 4: a row as long as its bin goes up to is in no bin
  words_not_numbered,  ///< rung 6: the bits before a word are those of the word before it alone
  last_window_lost,    ///< the columns beyond the last full window
  sums_not_cleared,    ///< sums of the window before are added to
  edge_twice,          ///< the column between two windows belongs to both
};

// SpMV
Entry row_entry(Fault fault);
Entry in_run_entry(Fault fault);
Entry tile_entry(Fault fault);
Entry hub_entry(Fault fault);
Entry share_entry(Fault fault);
// SpMM
Entry spmm_share_entry(Fault fault);
Entry atomic_entry(Fault fault);
Entry tensor_entry(Fault fault);
// SpGEMM
Entry dot_entry(Fault fault);
Entry hash_entry(Fault fault);
Entry sorting_entry(Fault fault);
Entry window_entry(Fault fault);

}  // namespace stages::cuda_mutants
