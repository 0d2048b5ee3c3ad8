# What the build needs of others, and the least version of each. Included by the project, and by cmake/probe, which only
# lists what is missing (STAGES_PROBE). docs/install.md has the same versions as a table.

set(STAGES_GCC_LEAST 11)
set(STAGES_CLANG_LEAST 16)  # std::source_location; the matrix library, and so the fuzz target, do without it
set(STAGES_FMT_LEAST 8)
set(STAGES_CLI11_LEAST 2.1)
set(STAGES_JSON_LEAST 3.9)
set(STAGES_GTEST_LEAST 1.11)
set(STAGES_EIGEN_LEAST 3.3)
set(STAGES_GRAPHBLAS_LEAST 7)
set(STAGES_BOOST_LEAST 1.61)  # static_assert in common/simt/fiber.hpp
set(STAGES_MPI_LEAST 3.0)

# One line a key; what they mean to a user is in tools/install-deps.sh.
set(STAGES_MISSING "")
if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS STAGES_GCC_LEAST)
   OR ((STAGES_PROBE OR STAGES_PROGRAMS) AND NOT STAGES_FUZZ
       AND CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS STAGES_CLANG_LEAST))
  list(APPEND STAGES_MISSING compiler)
  if(NOT STAGES_PROBE)
    message(FATAL_ERROR "${CMAKE_CXX_COMPILER} ${CMAKE_CXX_COMPILER_VERSION} is too old for C++20: g++ ${STAGES_GCC_LEAST} or \
clang++ ${STAGES_CLANG_LEAST} is needed; name another by -DCMAKE_CXX_COMPILER=")
  endif()
endif()

find_package(Threads REQUIRED)
find_package(ZLIB QUIET)
if(NOT TARGET ZLIB::ZLIB)
  list(APPEND STAGES_MISSING zlib)
endif()

# stages_need(KEY PACKAGE TARGET VERSION)
macro(stages_need key package target version)
  find_package(${package} ${version} QUIET)
  if(NOT TARGET ${target})
    list(APPEND STAGES_MISSING ${key})
  endif()
endmacro()

stages_need(fmt fmt fmt::fmt ${STAGES_FMT_LEAST})
if(STAGES_PROGRAMS OR STAGES_PROBE)
  stages_need(cli11 CLI11 CLI11::CLI11 ${STAGES_CLI11_LEAST})
  stages_need(json nlohmann_json nlohmann_json::nlohmann_json ${STAGES_JSON_LEAST})
endif()
if(STAGES_MISSING AND NOT STAGES_PROBE)
  string(REPLACE ";" ", " missing "${STAGES_MISSING}")
  message(FATAL_ERROR "${missing} not found, or too old (docs/install.md has the versions): tools/install-deps.sh run installs it \
or says how")
endif()
# The tests are left out without it.
if(STAGES_TESTS OR STAGES_PROBE)
  stages_need(googletest GTest GTest::gtest_main ${STAGES_GTEST_LEAST})
endif()

# Sets GRAPHBLAS_USABLE, and GRAPHBLAS_PROBLEM where one is there that cannot be used. Its packages say no version to CMake.
macro(stages_find_graphblas)
  if(NOT CMAKE_DISABLE_FIND_PACKAGE_GraphBLAS)  # as for those that find_package finds
    find_path(GRAPHBLAS_INCLUDE_DIR GraphBLAS.h PATH_SUFFIXES suitesparse)
    find_library(GRAPHBLAS_LIBRARY graphblas)
  endif()
  set(GRAPHBLAS_USABLE OFF)
  set(GRAPHBLAS_PROBLEM "")
  if(GRAPHBLAS_INCLUDE_DIR AND GRAPHBLAS_LIBRARY)
    set(version "")
    foreach(part MAJOR MINOR)
      file(STRINGS ${GRAPHBLAS_INCLUDE_DIR}/GraphBLAS.h line REGEX "define +GxB_IMPLEMENTATION_${part} +[0-9]+")
      string(REGEX MATCH "[0-9]+" number "${line}")
      list(APPEND version ${number})
    endforeach()
    string(REPLACE ";" "." version "${version}")
    include(CheckCSourceCompiles)
    set(CMAKE_REQUIRED_INCLUDES ${GRAPHBLAS_INCLUDE_DIR})
    set(CMAKE_REQUIRED_LIBRARIES ${GRAPHBLAS_LIBRARY})
    string(MAKE_C_IDENTIFIER "STAGES_GRAPHBLAS_${version}_WORKS" works)
    if("${version}" VERSION_LESS STAGES_GRAPHBLAS_LEAST)
      set(GRAPHBLAS_PROBLEM "${version} is too old")
    else()
      # The calls of common/vendor/graphblas.cpp that other versions have not, or have changed.
      check_c_source_compiles("#include <GraphBLAS.h>
        int main(void) {
          bool iso;
          void *x;
          GrB_Index *p, *j, a, b, c;
          GrB_Matrix m;
          return GxB_Global_Option_set(GxB_GLOBAL_NTHREADS, 1) || GxB_Matrix_Option_set(m, GxB_FORMAT, GxB_BY_ROW)
            || GxB_Matrix_unpack_CSR(m, &p, &j, &x, &a, &b, &c, &iso, 0, 0) || GxB_Matrix_unpack_FullR(m, &x, &a, &iso, 0);
        }" ${works})
      if(${works})
        set(GRAPHBLAS_USABLE ON)
      else()
        set(GRAPHBLAS_PROBLEM "${version} has not the calls that are used")
      endif()
    endif()
    unset(CMAKE_REQUIRED_INCLUDES)
    unset(CMAKE_REQUIRED_LIBRARIES)
  endif()
endmacro()
