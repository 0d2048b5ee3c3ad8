# What this step needs: MPI, found by CMakeLists.txt.
if(TARGET stages_mpi)
  set(stage_links stages_mpi)
else()
  set(stage_missing "MPI (Debian: libopenmpi-dev)")
endif()
