#pragma once
// What a user would pick instead of a step of the course, as entries like any other, one function for each
// library. Each is built only where CMake found the library.

#include <source_location>

#include "common/harness/registry.hpp"
#include "common/matrix/error.hpp"

namespace stages {

/// An entry on the GPU by a library that does not promise the same bits in each run.
inline EntryInfo library_on_gpu(std::string name, std::string idea) {
  return {.name = std::move(name),
          .idea = std::move(idea),
          .claims = {.bitwise_reproducible = false},
          .needs = {.gpu = true}};
}

/// Throws Error with the place, the call and the library's words for its status, or OutOfMemory where that is
/// what it means.
[[noreturn]] inline void library_failed(const char* call, const char* name, const char* words,
                                        bool out_of_memory, std::source_location where) {
  const std::string text =
      fmt::format("{}:{}: {} failed: {} ({})", where.file_name(), where.line(), call, name, words);
  if (out_of_memory) throw OutOfMemory(text);
  throw Error(text);
}

/// Why an entry that takes all vectors of a stream at once refuses another problem.
template <class T>
std::optional<std::string> refuse_but_streams(const SpmvProblem<T>& problem) {
  if (problem.mode == Mode::stream) return std::nullopt;
  return fmt::format("takes all vectors of a stream at once, and this problem is {} of {}",
                     to_string(problem.mode), problem.n_vectors);
}

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
