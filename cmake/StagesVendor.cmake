# Vendor libraries: what a user would pick instead of our own code, as entries like any other. What is missing is left out with a
# note.

# C++ lines of {name, what it needs} for `stages list`, by this file and by StagesSteps.cmake.
set(STAGES_LEFT_OUT "")
function(stages_leave_out name needs)
  message(STATUS "${name} is left out: it needs ${needs}")
  string(APPEND STAGES_LEFT_OUT "      {\"${name}\", \"${needs}\"},\n")
  set(STAGES_LEFT_OUT "${STAGES_LEFT_OUT}" PARENT_SCOPE)
endfunction()

add_library(stages_vendor STATIC ${PROJECT_SOURCE_DIR}/common/vendor/vendor.cpp)
target_link_libraries(stages_vendor PUBLIC stages_harness)

find_package(Eigen3 ${STAGES_EIGEN_LEAST} QUIET NO_MODULE)
if(TARGET Eigen3::Eigen)
  target_sources(stages_vendor PRIVATE ${PROJECT_SOURCE_DIR}/common/vendor/eigen.cpp)
  target_link_libraries(stages_vendor PRIVATE Eigen3::Eigen)
  target_compile_definitions(stages_vendor PRIVATE STAGES_HAVE_EIGEN)
else()
  stages_leave_out(vendor/eigen "Eigen 3 (Debian: libeigen3-dev)")
endif()

stages_find_graphblas()
if(GRAPHBLAS_USABLE)
  target_sources(stages_vendor PRIVATE ${PROJECT_SOURCE_DIR}/common/vendor/graphblas.cpp)
  target_include_directories(stages_vendor SYSTEM PRIVATE ${GRAPHBLAS_INCLUDE_DIR})
  target_link_libraries(stages_vendor PRIVATE ${GRAPHBLAS_LIBRARY})
  target_compile_definitions(stages_vendor PRIVATE STAGES_HAVE_GRAPHBLAS)
elseif(GRAPHBLAS_PROBLEM)
  stages_leave_out(vendor/graphblas "SuiteSparse:GraphBLAS ${STAGES_GRAPHBLAS_LEAST} or newer, and ${GRAPHBLAS_PROBLEM}")
else()
  stages_leave_out(vendor/graphblas "SuiteSparse:GraphBLAS (Debian: libgraphblas-dev)")
endif()

if(STAGES_BACKEND STREQUAL "gpu")
  foreach(source cublas cusparse_spmv cusparse_spmm cusparse_spgemm)
    target_sources(stages_vendor PRIVATE ${PROJECT_SOURCE_DIR}/common/vendor/${source}.cpp)
  endforeach()
  target_link_libraries(stages_vendor PUBLIC stages_gpu PRIVATE CUDA::cublas CUDA::cusparse)
endif()
