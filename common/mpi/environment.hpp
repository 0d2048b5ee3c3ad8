#pragma once
// What the environment says about ranks, without a call to MPI: a program asks here first, and starts MPI
// only where there is something to start it for.

#include <cstddef>

namespace stages::mpi {

/// True in a process that mpirun (Open MPI, or a launcher that speaks PMI or PMIx) has started.
bool started_by_mpirun();

/// STAGES_MPI_NODES, for tests: the ranks of one machine are dealt to that many pretend nodes, which share no
/// memory with each other. 1 where it is not set. Throws Error unless it is a number from 1 on.
int pretend_nodes();

/// STAGES_MPI_CHUNK_BYTES, for tests: the largest message. 1 GiB where it is not set, because a count of MPI
/// is an int. Throws Error unless it is in 1 .. 2^31 - 1.
std::size_t chunk_bytes_wanted();

}  // namespace stages::mpi
