# How CUDA sources (.cu) are built: by nvcc (gpu), or as C++20 against the executor in common/simt (cpu). STAGES_CUDA says
# whether they can be built at all; if not, the stages that hold them are left out with a note.
set(STAGES_CUDA OFF)
if(EXISTS ${PROJECT_SOURCE_DIR}/cmake/StagesCuda.cmake)
  include(cmake/StagesCuda.cmake)
endif()
