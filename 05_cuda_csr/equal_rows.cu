// SpMV with two arrays: every row has the same number of non-zeros, so no row pointers are needed.
//
// The idea: drop the zeros. What is left of row i is its k-th value and its k-th column, k = 0 .. w - 1, and
// as w is the same for all rows, both fit into a w x rows table, stored so that the k-th entries of all rows
// lie side by side. The kernel is that of 04_cuda_shared with one more load: a thread per row, coalesced, and
// the column says which element of x to take. x is read at random places now, so it had better be near: in
// shared memory, where a random read costs little more than a regular one.
//
// Input: a matrix with equally long rows; others are refused. Cost: nnz multiplications instead of rows x
// cols, (4 + sizeof(T)) x nnz bytes; at 80 % zeros, two fifths of the dense form's. Where x does not fit into
// shared memory it is read through the caches.
//
// Source: the course project's third GPU step (29.22 ms against 70.59 for n = 1024 on a GTX 1080 Ti).

#include <algorithm>

#include "05_cuda_csr/equal_row_length.hpp"
#include "05_cuda_csr/stage.hpp"
#include "common/gpu/cuda.hpp"
#include "common/gpu/facts.hpp"
#include "common/gpu/plans.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;

/// Entry k of row i is at [k * rows + i] of both arrays.
template <class T>
struct EqualRows {
  Index rows = 0, cols = 0;
  Index row_nnz = 0;
  const Index* col_idx = nullptr;
  const T* values = nullptr;
};

/// y = A x. With kShared: `cols` elements of dynamic shared memory hold x.
template <bool kShared, class T>
__global__ void multiply(EqualRows<T> a, const T* x, T* y) {
  const T* near_x = x;
  if constexpr (kShared) {
    T* shared_x = dynamic_shared<T>();
    for (Index j = static_cast<Index>(threadIdx.x); j < a.cols; j += kBlock) shared_x[j] = x[j];
    __syncthreads();
    near_x = shared_x;
  }
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread >= static_cast<unsigned>(a.rows)) return;
  const Index* column = a.col_idx + thread;
  const T* value = a.values + thread;
  T sum = 0;
#pragma unroll 8
  for (Index k = 0; k < a.row_nnz; ++k) sum += value[Offset{k} * a.rows] * near_x[column[Offset{k} * a.rows]];
  y[thread] = sum;
}

template <class T>
class EqualRowsPlan final : public DeviceSpmvPlan<T> {
 public:
  EqualRowsPlan(const SpmvProblem<T>& problem, Exec& exec) : DeviceSpmvPlan<T>(problem, exec) {
    const Csr<T>& a = *problem.a;
    const auto rows = static_cast<std::size_t>(a.rows), width = static_cast<std::size_t>(equal_row_length(a));
    Buffer<Index> columns(rows * width);
    Buffer<T> values(rows * width);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t k = 0; k < width; ++k) {
        columns[k * rows + i] = a.col_idx[i * width + k];
        values[k * rows + i] = a.values[i * width + k];
      }
    }
    columns_ = DeviceArray<Index>(std::span<const Index>(columns));
    values_ = DeviceArray<T>(std::span<const T>(values));
    view_ = {a.rows, a.cols, narrow<Index>(width), columns_.data(), values_.data()};
    shared_bytes_ = static_cast<std::size_t>(a.cols) * sizeof(T);
    shared_ = shared_bytes_ <= device_facts().shared_per_block_optin;
    if (shared_) allow_shared_bytes(multiply<true, T>, shared_bytes_);
  }

  static Cost cost(const SpmvProblem<T>& problem) {
    Cost cost = problem_cost(problem);
    cost.memory += static_cast<double>(sizeof(Index) + sizeof(T)) * static_cast<double>(problem.a->nnz());
    return cost;
  }
  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec&) {
    return uneven_rows(*problem.a);
  }

  std::string note() const override {
    return shared_ ? "" : fmt::format("x takes {} bytes, more than shared memory has", shared_bytes_);
  }

 protected:
  void product(const T* x, T* y) override {
    const LaunchConfig config{.grid = blocks_for(view_.rows, kBlock),
                              .block = kBlock,
                              .shared_bytes = shared_ ? shared_bytes_ : 0,
                              .stream = this->stream()};
    if (shared_) {
      launch(multiply<true, T>, config, view_, x, y);
    } else {
      launch(multiply<false, T>, config, view_, x, y);
    }
  }

 private:
  DeviceArray<Index> columns_;
  DeviceArray<T> values_;
  EqualRows<T> view_;
  std::size_t shared_bytes_ = 0;
  bool shared_ = false;
};

}  // namespace

void add_equal_rows(Registry& registry) {
  registry.add<EqualRowsPlan>(
      {.name = "05_cuda_csr/equal_rows",
       .idea = "equal rows need two arrays only; a thread per row, x in shared memory",
       .needs = {.gpu = true}});
}

}  // namespace stages
