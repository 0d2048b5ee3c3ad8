// SpMV on the matrix written out in full, with x in shared memory.
//
// The idea: every thread of 03_cuda_naive's kernels reads all of x from global memory, one number a step, and
// each such load takes a place in the queue of loads beside the one that matters, the matrix's. Here the
// block first copies a tile of x to its shared memory together, each thread some numbers, and then every
// thread reads it from there: all lanes the same word, a broadcast. Two barriers make it right: one after the
// copy, so that nobody reads what is not there yet, and one before the next copy, so that nobody overwrites
// what others still read. The last tile is shorter, and the threads beyond the last row must come to the
// barriers too.
//
// What this frees is used for the matrix: a thread asks for 16 of its elements before it uses the first.
// Waiting for one load at a time is what most of the time of the kernel before goes into.
//
// Input: any matrix whose dense form fits. Cost: rows x cols multiplications; reads sizeof(T) x rows x cols
// bytes of the matrix and, for each block of 128 rows, x once.
//
// Source: the course project's second GPU step (70.59 ms against 125.08 for n = 1024 on a GTX 1080 Ti).

#include <algorithm>

#include "04_cuda_shared/stage.hpp"
#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"
#include "common/matrix/convert.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;
constexpr Index kBatch = 16;  ///< loads of the matrix that a thread has in flight

/// y = A x with element (i, j) of A at a.data[j * a.ld + i]. Dynamic shared memory: `tile` elements.
template <class T>
__global__ void __launch_bounds__(kBlock, 1) multiply(DenseView<const T> a, const T* x, T* y, Index tile) {
  T* shared_x = dynamic_shared<T>();
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  const bool has_row = thread < static_cast<unsigned>(a.rows);
  T sum = 0;
  for (Index first = 0; first < a.cols; first += tile) {
    const Index columns = min(tile, a.cols - first);
    for (Index k = static_cast<Index>(threadIdx.x); k < columns; k += kBlock) shared_x[k] = x[first + k];
    __syncthreads();
    if (has_row) {
      const T* element = a.data + first * a.ld + thread;
      Index k = 0;
      for (; k + kBatch <= columns; k += kBatch) {
        T batch[kBatch];
#pragma unroll
        for (Index u = 0; u < kBatch; ++u) batch[u] = element[(k + u) * a.ld];
#pragma unroll
        for (Index u = 0; u < kBatch; ++u) sum += batch[u] * shared_x[k + u];
      }
      for (; k < columns; ++k) sum += element[k * a.ld] * shared_x[k];
    }
    __syncthreads();
  }
  if (has_row) y[thread] = sum;
}

template <class T>
class SharedVector final : public DeviceSpmvPlan<T> {
 public:
  SharedVector(const SpmvProblem<T>& problem, Exec& exec, Index tile_columns)
      : DeviceSpmvPlan<T>(problem, exec),
        tile_(std::min({tile_columns, problem.a->cols, most_tile_columns<T>(0)})),
        dense_(std::span<const T>(to_dense(*problem.a, Layout::col_major).data)) {
    allow_shared_bytes(multiply<T>, shared_bytes());
  }

  static Cost cost(const SpmvProblem<T>& problem) {
    Cost cost = problem_cost(problem);
    const double elements = static_cast<double>(problem.a->rows) * problem.a->cols;
    cost.work = elements * problem.products;
    cost.memory += elements * sizeof(T);
    return cost;
  }

 protected:
  void product(const T* x, T* y) override {
    const Csr<T>& a = this->a();
    const DenseView<const T> dense{a.rows, a.cols, a.rows, Layout::col_major, dense_.data()};
    launch(multiply<T>,
           {.grid = blocks_for(a.rows, kBlock),
            .block = kBlock,
            .shared_bytes = shared_bytes(),
            .stream = this->stream()},
           dense, x, y, tile_);
  }

 private:
  /// In full 16 bytes, because the compiler reads neighbours together and may reach beyond the last.
  std::size_t shared_bytes() const { return (static_cast<std::size_t>(tile_) + 3) / 4 * 4 * sizeof(T); }

  Index tile_;
  DeviceArray<T> dense_;
};

}  // namespace

void add_shared_vector(Registry& registry, const std::string& name, Index tile_columns) {
  registry.add<SharedVector>({.name = name,
                              .idea = "the transposed matrix, a thread per row, x by tiles in shared memory",
                              .needs = {.gpu = true}},
                             tile_columns);
}

}  // namespace stages
