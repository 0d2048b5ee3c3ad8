# The entries for several GPUs need MPI; without it the step is what one GPU can do.
if(TARGET stages_multigpu)
  set(stage_links stages_multigpu)
elseif(STAGES_CUDA)
  list(FILTER host_sources EXCLUDE REGEX "/multi_[^/]*$")
  stages_leave_out(${stage}/multi_* "MPI (Debian: libopenmpi-dev)")
endif()
