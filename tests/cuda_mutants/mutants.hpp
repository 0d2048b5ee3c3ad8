#pragma once
// GPU entries with one planted fault each, for the checker to reject on both backends, and the same without.
// They are those that only kernels have: what else may be wrong with a result is planted in tests/mutants.

#include "common/harness/registry.hpp"

namespace stages::cuda_mutants {

enum class Fault {
  none,

  // A CSR kernel, a warp per row.
  failed_launch,  ///< D2 (a), (b): the launch is refused, nobody looks, and the time is taken all the same
  wrong_mask,     ///< all lanes shuffle under a mask of 16 (the executor reports it; hardware may not)

  // Where that kernel multiplies.
  copies_from_load,   ///< load() multiplies, and run() copies the result
  replays,            ///< run() multiplies after a load, and later ones leave what is there
  in_another_stream,  ///< that nobody waits for, and whose time nobody takes

  // The dense kernel with tiles of x in shared memory. One warp copies for all, the slowest.
  no_barrier_after_copy,   ///< tiles are read before they are there
  no_barrier_before_copy,  ///< tiles are overwritten while others still read them
  tail_leaves_early,       ///< threads beyond the last row leave, and with them those that copy

  // A row in several chunks, added up by the last to arrive.
  counter_not_reset,  ///< the second run finds the counter full
  adds_too_early,     ///< the first to arrive adds up, not the last

  // SpMM: equal shares of the non-zeros that add to C by atomics. B and C are row-major.
  unzeroed,           ///< C is added to, and nobody has zeroed it
  set_once,           ///< C is set before the first run only
  zeroes_padding,     ///< all of C is set to zero, its padding included
  b_without_padding,  ///< the leading dimension of B is taken to be the number of columns
  eleven_bits,        ///< floats of B lose the bits that a TF32 number has not
};

Entry row_entry(Fault fault);
Entry tile_entry(Fault fault);
Entry hub_entry(Fault fault);
Entry atomic_entry(Fault fault);

}  // namespace stages::cuda_mutants
