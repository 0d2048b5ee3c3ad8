#include "common/mpi/check.hpp"

#include <string>

#include "common/matrix/error.hpp"

namespace stages::mpi {

void check(int code, std::string_view what, std::source_location where) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "an unknown error";
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  const std::string file = where.file_name();
  fail("{}: MPI says: {} ({}:{}); check the memory and the shared memory (/dev/shm) of each node", what, text,
       file.substr(file.find("common/") == std::string::npos ? 0 : file.find("common/")), where.line());
}

int own_rank(MPI_Comm comm, std::source_location where) {
  int rank = 0;
  check(MPI_Comm_rank(comm, &rank), "asking for the rank", where);
  return rank;
}

int rank_count(MPI_Comm comm, std::source_location where) {
  int size = 1;
  check(MPI_Comm_size(comm, &size), "asking for the number of ranks", where);
  return size;
}

}  // namespace stages::mpi
