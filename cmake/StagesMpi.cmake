# The room common/mpi, where MPI is there. Without it the programs build and run as they are on one process.
# find_package looks for the C bindings: the C++ ones are gone from the standard.
find_package(MPI ${STAGES_MPI_LEAST} QUIET COMPONENTS C)
if(MPI_C_FOUND)
  stages_room(mpi LINKS stages_harness MPI::MPI_C)
  target_compile_definitions(stages_mpi PUBLIC STAGES_HAVE_MPI OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)
else()
  message(STATUS "MPI ${STAGES_MPI_LEAST} or newer not found: several ranks and 02_mpi are left out (Debian: libopenmpi-dev)")
endif()
