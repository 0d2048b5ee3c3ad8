#pragma once
// What a user would pick instead of a step of the course, as entries like any other, one function for each
// library. Each is built only where CMake found the library.

#include "common/harness/registry.hpp"

namespace stages {

/// Registers the entries of every library that this build has.
void add_vendor(Registry& registry);

/// vendor/eigen_spmv, vendor/eigen_spmm, vendor/eigen_spgemm: Eigen 3.4, header-only, one thread.
void add_vendor_eigen(Registry& registry);

/// vendor/graphblas_spmv, vendor/graphblas_spmm, vendor/graphblas_spgemm: SuiteSparse:GraphBLAS 7 or later,
/// one thread, blocking mode. Starts the library at the first prepare.
void add_vendor_graphblas(Registry& registry);
void add_vendor_cublas(Registry& registry);
void add_vendor_cusparse_spmv(Registry& registry);
void add_vendor_cusparse_spmm(Registry& registry);
void add_vendor_cusparse_spgemm(Registry& registry);

}  // namespace stages
