# What a user would pick instead of our own code, as entries like any other. What is missing is left out with a note.

# C++ lines of {name, what it needs} for `stages list`, by this file and by StagesSteps.cmake.
set(STAGES_LEFT_OUT "")
function(stages_leave_out name needs)
  message(STATUS "${name} is left out: it needs ${needs}")
  string(APPEND STAGES_LEFT_OUT "      {\"${name}\", \"${needs}\"},\n")
  set(STAGES_LEFT_OUT "${STAGES_LEFT_OUT}" PARENT_SCOPE)
endfunction()

add_library(stages_peers STATIC ${CMAKE_SOURCE_DIR}/common/vendor/vendor.cpp)
target_link_libraries(stages_peers PUBLIC stages_harness)

find_package(Eigen3 QUIET NO_MODULE)
if(TARGET Eigen3::Eigen)
  target_sources(stages_peers PRIVATE ${CMAKE_SOURCE_DIR}/common/vendor/eigen.cpp)
  target_link_libraries(stages_peers PRIVATE Eigen3::Eigen)
  target_compile_definitions(stages_peers PRIVATE STAGES_HAVE_EIGEN)
else()
  stages_leave_out(vendor/eigen "Eigen 3 (Debian: libeigen3-dev)")
endif()

find_path(GRAPHBLAS_INCLUDE_DIR GraphBLAS.h PATH_SUFFIXES suitesparse)
find_library(GRAPHBLAS_LIBRARY graphblas)
if(GRAPHBLAS_INCLUDE_DIR AND GRAPHBLAS_LIBRARY)
  target_sources(stages_peers PRIVATE ${CMAKE_SOURCE_DIR}/common/vendor/graphblas.cpp)
  target_include_directories(stages_peers SYSTEM PRIVATE ${GRAPHBLAS_INCLUDE_DIR})
  target_link_libraries(stages_peers PRIVATE ${GRAPHBLAS_LIBRARY})
  target_compile_definitions(stages_peers PRIVATE STAGES_HAVE_GRAPHBLAS)
else()
  stages_leave_out(vendor/graphblas "SuiteSparse:GraphBLAS (Debian: libgraphblas-dev)")
endif()

if(STAGES_BACKEND STREQUAL "gpu")
  foreach(source cublas cusparse cusparse_spmv cusparse_spmm cusparse_spgemm)
    target_sources(stages_peers PRIVATE ${CMAKE_SOURCE_DIR}/common/vendor/${source}.cpp)
  endforeach()
  target_link_libraries(stages_peers PUBLIC stages_gpu PRIVATE CUDA::cublas CUDA::cusparse)
endif()
