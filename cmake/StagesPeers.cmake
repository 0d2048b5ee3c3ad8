# What a user would pick instead of our own code, as entries like any other. What is missing is left out with a note.

add_library(stages_peers STATIC ${CMAKE_SOURCE_DIR}/common/vendor/vendor.cpp)
target_link_libraries(stages_peers PUBLIC stages_harness)

find_package(Eigen3 QUIET NO_MODULE)
if(TARGET Eigen3::Eigen)
  target_sources(stages_peers PRIVATE ${CMAKE_SOURCE_DIR}/common/vendor/eigen.cpp)
  target_link_libraries(stages_peers PRIVATE Eigen3::Eigen)
  target_compile_definitions(stages_peers PRIVATE STAGES_HAVE_EIGEN)
else()
  message(STATUS "Eigen not found: its entries are left out (Debian: libeigen3-dev)")
endif()

find_path(GRAPHBLAS_INCLUDE_DIR GraphBLAS.h PATH_SUFFIXES suitesparse)
find_library(GRAPHBLAS_LIBRARY graphblas)
if(GRAPHBLAS_INCLUDE_DIR AND GRAPHBLAS_LIBRARY)
  target_sources(stages_peers PRIVATE ${CMAKE_SOURCE_DIR}/common/vendor/graphblas.cpp)
  target_include_directories(stages_peers SYSTEM PRIVATE ${GRAPHBLAS_INCLUDE_DIR})
  target_link_libraries(stages_peers PRIVATE ${GRAPHBLAS_LIBRARY})
  target_compile_definitions(stages_peers PRIVATE STAGES_HAVE_GRAPHBLAS)
else()
  message(STATUS "SuiteSparse:GraphBLAS not found: its entries are left out (Debian: libgraphblas-dev)")
endif()
