# What the build needs of others, and the least version of each. Included by the project, and by cmake/probe, which only
# lists what is missing (STAGES_PROBE). docs/install.md has the same versions as a table.
#
# -DSTAGES_FETCH=ON takes the small libraries that are not found from their authors' releases, -DSTAGES_FETCH_FROM=DIR from
# a directory with archives or sources of them, without a network. Both may be environment variables too; the build directory then remembers them.

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

option(STAGES_FETCH "Fetch fmt, CLI11, nlohmann_json and GoogleTest where they are not found" OFF)
set(STAGES_FETCH_FROM "" CACHE PATH "Directory with archives or sources of the libraries that STAGES_FETCH would fetch")
if(DEFINED ENV{STAGES_FETCH_FROM})
  set(STAGES_FETCH_FROM "$ENV{STAGES_FETCH_FROM}" CACHE PATH "" FORCE)
endif()
if(DEFINED ENV{STAGES_FETCH})
  set(STAGES_FETCH "$ENV{STAGES_FETCH}" CACHE BOOL "" FORCE)
endif()

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

# stages_need(KEY PACKAGE TARGET VERSION ARCHIVE SHA256): finds the package, or fetches it.
macro(stages_need key package target version archive sha256)
  string(TOUPPER ${key} upper)
  if(NOT FETCHCONTENT_SOURCE_DIR_${upper})
    find_package(${package} ${version} QUIET)
  endif()
  if(NOT TARGET ${target} AND (STAGES_FETCH OR STAGES_FETCH_FROM) AND NOT STAGES_PROBE)
    stages_fetch(${key} ${target} ${archive} ${sha256})
  elseif(NOT TARGET ${target})
    list(APPEND STAGES_MISSING ${key})
  endif()
endmacro()

# Sources of a library, from STAGES_FETCH_FROM or by the network, and its targets.
macro(stages_fetch key target archive sha256)
  include(FetchContent)
  if(POLICY CMP0135)
    cmake_policy(SET CMP0135 NEW)  # files of an archive are as old as its unpacking, so that they are built after it
  endif()
  string(TOUPPER ${key} upper)
  set(fetched ${PROJECT_BINARY_DIR}/fetched/${key}.tar.gz)
  file(GLOB sources LIST_DIRECTORIES true ${STAGES_FETCH_FROM}/${key} ${STAGES_FETCH_FROM}/${key}[-.]*)
  if(FETCHCONTENT_SOURCE_DIR_${upper})
    FetchContent_Declare(${key})
  elseif(STAGES_FETCH_FROM)
    list(LENGTH sources count)
    if(NOT count EQUAL 1)
      message(FATAL_ERROR "STAGES_FETCH_FROM=${STAGES_FETCH_FROM} must hold one archive or directory whose name begins with \
'${key}', and holds ${count}; ${archive} is an archive that was tried")
    elseif(IS_DIRECTORY ${sources})
      FetchContent_Declare(${key} SOURCE_DIR ${sources})
    else()
      FetchContent_Declare(${key} URL ${sources})
    endif()
  else()
    set(digest "")
    if(EXISTS ${fetched})
      file(SHA256 ${fetched} digest)
    endif()
    if(NOT digest STREQUAL "${sha256}")
      message(STATUS "fetching ${archive}")
      file(DOWNLOAD ${archive} ${fetched} STATUS result INACTIVITY_TIMEOUT 30 TLS_VERIFY ON)
      list(GET result 0 code)
      list(GET result 1 text)
      if(code EQUAL 0)
        file(SHA256 ${fetched} digest)
      endif()
      if(NOT digest STREQUAL "${sha256}")
        file(REMOVE ${fetched})
        if(code EQUAL 0)
          set(text "it is not the file that is expected, its SHA-256 is ${digest}")
        endif()
        message(FATAL_ERROR "${archive} could not be fetched (${text}); fetch the archives where there is a network, put them \
into a directory, named ${key}.tar.gz and so on, and configure with -DSTAGES_FETCH_FROM=DIR")
      endif()
    endif()
    FetchContent_Declare(${key} URL ${fetched} URL_HASH SHA256=${sha256})
  endif()
  FetchContent_MakeAvailable(${key})
  # Warnings in their headers are not ours.
  get_target_property(real ${target} ALIASED_TARGET)
  if(NOT real)
    set(real ${target})
  endif()
  get_target_property(headers ${real} INTERFACE_INCLUDE_DIRECTORIES)
  set_target_properties(${real} PROPERTIES INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${headers}")
endmacro()

# Our library needs fmt wherever it is installed; a fetched fmt is installed with it.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME matrix)
set(FMT_INSTALL ${STAGES_INSTALL})
set(FMT_SYSTEM_HEADERS ON)
stages_need(fmt fmt fmt::fmt ${STAGES_FMT_LEAST} https://github.com/fmtlib/fmt/archive/refs/tags/9.1.0.tar.gz
  5dea48d1fcddc3ec571ce2058e13910a0d4a6bab4cc09a809d8b1dd1c88ae6f2)
unset(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME)
set(CLI11_INSTALL OFF)
set(JSON_Install OFF)
if(STAGES_PROGRAMS OR STAGES_PROBE)
  stages_need(cli11 CLI11 CLI11::CLI11 ${STAGES_CLI11_LEAST} https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.3.2.tar.gz
    aac0ab42108131ac5d3344a9db0fdf25c4db652296641955720a4fbe52334e22)
  stages_need(json nlohmann_json nlohmann_json::nlohmann_json ${STAGES_JSON_LEAST}
    https://github.com/nlohmann/json/archive/refs/tags/v3.11.2.tar.gz
    d69f9deb6a75e2580465c6c4c5111b89c4dc2fa94e3a85fcd2ffcd9a143d9273)
endif()
if(STAGES_MISSING AND NOT STAGES_PROBE)
  string(REPLACE ";" ", " missing "${STAGES_MISSING}")
  message(FATAL_ERROR "${missing} not found, or too old (docs/install.md has the versions): tools/install-deps.sh run installs it \
or says how; or configure with -DSTAGES_FETCH=ON, which fetches fmt, cli11 and json")
endif()
# The tests are left out without it.
if(STAGES_TESTS OR STAGES_PROBE)
  set(INSTALL_GTEST OFF)
  stages_need(googletest GTest GTest::gtest_main ${STAGES_GTEST_LEAST}
    https://github.com/google/googletest/archive/refs/tags/release-1.12.1.tar.gz
    81964fe578e9bd7c94dfdb09c8e4d6e6759e19967e397dbea48d1c10e45d0df2)
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
