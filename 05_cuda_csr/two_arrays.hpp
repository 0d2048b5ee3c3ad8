#pragma once
// Matrices with equally long rows need no row pointers: what their forms require, and the rungs' plan.

#include <optional>
#include <string>

#include "common/gpu/cuda.hpp"
#include "common/gpu/facts.hpp"
#include "common/gpu/plans.hpp"
#include "common/harness/registry.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/types.hpp"

namespace stages {

/// Non-zeros of a row of `a`, whose rows are equally long; 0 without rows.
template <class T>
Offset equal_row_length(const Csr<T>& a) {
  return a.rows == 0 ? 0 : a.row_nnz(0);
}

/// Names the first row of `a` that is not as long as row 0; nothing where all are.
template <class T>
std::optional<std::string> uneven_rows(const Csr<T>& a) {
  for (Index i = 1; i < a.rows; ++i) {
    if (a.row_nnz(i) != a.row_nnz(0)) {
      return fmt::format("needs equally many non-zeros in each row; row 0 has {} and row {} has {}",
                         a.row_nnz(0), i, a.row_nnz(i));
    }
  }
  return std::nullopt;
}

/// Two arrays in device memory: the columns and the values of `rows` x `row_nnz` non-zeros.
template <class T>
struct TwoArrays {
  Index rows = 0, cols = 0;
  Index row_nnz = 0;
  const Index* col_idx = nullptr;
  const T* values = nullptr;
};

/// Bytes of all of x, which a block keeps in shared memory.
template <class T>
std::size_t bytes_of_x(const Csr<T>& a) {
  return static_cast<std::size_t>(a.cols) * sizeof(T);
}

inline constexpr unsigned kTwoArraysBlock = 128;  ///< threads: a row each

/// A plan on two arrays: row by row (row_major), or with the k-th non-zeros of all rows side by side
/// (col_major). Kernel{}.operator()<T>() is the kernel, which gets `cols` elements of dynamic shared memory.
template <class T, Layout kLayout, class Kernel>
class TwoArraysPlan final : public DeviceSpmvPlan<T> {
 public:
  TwoArraysPlan(const SpmvProblem<T>& problem, Exec& exec) : DeviceSpmvPlan<T>(problem, exec) {
    const Csr<T>& a = *problem.a;
    const auto rows = static_cast<std::size_t>(a.rows), width = static_cast<std::size_t>(equal_row_length(a));
    Buffer<Index> columns(rows * width);
    Buffer<T> values(rows * width);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t k = 0; k < width; ++k) {
        const std::size_t to = kLayout == Layout::row_major ? i * width + k : k * rows + i;
        columns[to] = a.col_idx[i * width + k];
        values[to] = a.values[i * width + k];
      }
    }
    columns_ = DeviceArray<Index>(std::span<const Index>(columns));
    values_ = DeviceArray<T>(std::span<const T>(values));
    view_ = {a.rows, a.cols, narrow<Index>(width), columns_.data(), values_.data()};
    allow_shared_bytes(kernel(), bytes_of_x(a));
  }

  static Cost cost(const SpmvProblem<T>& problem) {
    return problem_cost(problem).plus_memory(static_cast<double>(sizeof(Index) + sizeof(T)) *
                                             static_cast<double>(problem.a->nnz()));
  }
  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec&) {
    if (bytes_of_x(*problem.a) > device_facts().shared_per_block_optin) {
      return fmt::format("x takes {} bytes of shared memory; a block of this device has {}",
                         bytes_of_x(*problem.a), device_facts().shared_per_block_optin);
    }
    return uneven_rows(*problem.a);
  }

 private:
  static auto kernel() { return Kernel{}.template operator()<T>(); }
  void product(const T* x, T* y) override {
    launch(kernel(),
           {.grid = blocks_for(view_.rows, kTwoArraysBlock),
            .block = kTwoArraysBlock,
            .shared_bytes = bytes_of_x(this->a()),
            .stream = this->stream()},
           view_, x, y);
  }

  DeviceArray<Index> columns_;
  DeviceArray<T> values_;
  TwoArrays<T> view_;
};

/// Registers an entry: `kernel` as above.
template <Layout kLayout, class Kernel>
void add_on_two_arrays(Registry& registry, EntryInfo info, Kernel /*kernel*/) {
  registry.add(std::move(info),
               plans<TwoArraysPlan<float, kLayout, Kernel>, TwoArraysPlan<double, kLayout, Kernel>>());
}

}  // namespace stages
