#pragma once
// Work that ranks do one after the other, because they share what it needs.

#include <mpi.h>

#include "common/mpi/check.hpp"

namespace stages::mpi {

/// Calls work() on this rank when those with lower turns are done; returns when all are. Collective: `turns`
/// is the same on all ranks, `turn` below that; ranks with equal turns work at the same time.
template <class Work>
void take_turns(int turn, int turns, MPI_Comm comm, Work&& work) {
  for (int k = 0; k < turns; ++k) {
    if (k > 0) check(MPI_Barrier(comm), "waiting for the turn");
    if (k == turn) work();
  }
  if (turns > 1) check(MPI_Barrier(comm), "waiting for the last turn");
}

}  // namespace stages::mpi
