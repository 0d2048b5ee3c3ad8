# A compiler cache, where there is one when the build is configured first: with another command all would be compiled anew.

if(NOT DEFINED STAGES_CCACHE)
  find_program(STAGES_CCACHE ccache)
endif()
if(STAGES_CCACHE)
  # Precompiled headers are cached only with this; macros of the time of day are in none of ours.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros)
  # Else a precompiled header is taken from the cache though a comment in it has changed, and g++, which tells files that
  # were included once by all their bytes, includes that one again. Nor is one taken that was stored without this. And what is
  # not cached yet need not be preprocessed to be looked for, which nvcc takes a second for.
  list(APPEND launcher CCACHE_DEPEND=1 CCACHE_NAMESPACE=depend)
  # What a file holds is looked at once, not for each source that includes it: a precompiled header of 100 MB takes a second.
  list(APPEND launcher CCACHE_INODECACHE=1)
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher} ${STAGES_CCACHE})
  endif()
  if(NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher} ${STAGES_CCACHE})
  endif()
endif()
