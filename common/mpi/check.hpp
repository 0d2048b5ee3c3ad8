#pragma once
// Checked MPI calls: MPI_Send(...) becomes mpi::check(MPI_Send(...), "what was wanted"). The session asks MPI
// to return its errors instead of ending the process in the middle of a sentence.

#include <mpi.h>

#include <source_location>
#include <string_view>

namespace stages::mpi {

/// Throws Error with `what`, the text of MPI's error and the place of the call, unless `code` is MPI_SUCCESS.
void check(int code, std::string_view what, std::source_location where = std::source_location::current());

/// This process's rank in `comm`, and how many ranks that has.
int own_rank(MPI_Comm comm, std::source_location where = std::source_location::current());
int rank_count(MPI_Comm comm, std::source_location where = std::source_location::current());

}  // namespace stages::mpi
