// SpMV on the matrix written out in full: x in shared memory, and each row shared by many threads.
//
// The idea: with a thread per row, n = 1024 makes 8 blocks of 128 threads on a chip of 132 SMs, and each
// thread waits for 1024 loads, a few at a time. What is missing is not bandwidth but loads in flight. So a
// block takes 32 rows and 32 threads for each: lane l of every warp stands on row l (neighbouring threads
// still read neighbouring numbers), and warp w takes columns w, w + 32, w + 64 and so on. In the end each row
// has 32 partial sums; they meet in shared memory, in a table with a column more than needed, so that the 32
// that are added up together lie in 32 different banks, and warp w adds up row w by shuffles. The order of
// the additions is fixed.
//
// Input: any matrix whose dense form fits. Cost: as shared_vector.cu; x is read once for each 32 rows instead
// of 128.

#include <algorithm>

#include "04_cuda_shared/stage.hpp"
#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"
#include "common/matrix/convert.hpp"

namespace stages {
namespace {

constexpr unsigned kRows = 32;   ///< rows of a block: one for each lane
constexpr unsigned kWarps = 32;  ///< threads of a row: one in each warp
constexpr unsigned kBlock = kRows * kWarps;
constexpr Index kBatch = 16;  ///< loads of the matrix that a thread has in flight
constexpr unsigned kAllLanes = 0xffffffffu;

/// y = A x with element (i, j) of A at a.data[j * a.ld + i]. Dynamic shared memory: `tile` elements.
template <class T>
__global__ void __launch_bounds__(kBlock, 1) multiply(DenseView<const T> a, const T* x, T* y, Index tile) {
  __shared__ T partial[kRows][kWarps + 1];
  T* shared_x = dynamic_shared<T>();
  const unsigned lane = threadIdx.x % kRows, warp = threadIdx.x / kRows;
  const unsigned row = blockIdx.x * kRows + lane;
  const bool has_row = row < static_cast<unsigned>(a.rows);
  T sum = 0;
  for (Index first = 0; first < a.cols; first += tile) {
    const Index columns = min(tile, a.cols - first);
    for (Index k = static_cast<Index>(threadIdx.x); k < columns; k += kBlock) shared_x[k] = x[first + k];
    __syncthreads();
    if (has_row) {
      const T* element = a.data + first * a.ld + row;
      Index k = static_cast<Index>(warp);
      for (; k + (kBatch - 1) * Index{kWarps} < columns; k += kBatch * Index{kWarps}) {
        T batch[kBatch];
#pragma unroll
        for (Index u = 0; u < kBatch; ++u) batch[u] = element[(k + u * Index{kWarps}) * a.ld];
#pragma unroll
        for (Index u = 0; u < kBatch; ++u) sum += batch[u] * shared_x[k + u * Index{kWarps}];
      }
      for (; k < columns; k += Index{kWarps}) sum += element[k * a.ld] * shared_x[k];
    }
    __syncthreads();
  }
  partial[lane][warp] = sum;
  __syncthreads();
  // The roles turn: warp w sums up row w, lane l brings what warp l found there.
  T total = partial[warp][lane];
  for (unsigned d = 16; d > 0; d /= 2) total += __shfl_down_sync(kAllLanes, total, d);
  const unsigned my_row = blockIdx.x * kRows + warp;
  if (lane == 0 && my_row < static_cast<unsigned>(a.rows)) y[my_row] = total;
}

template <class T>
class SharedVectorAndRow final : public DeviceSpmvPlan<T> {
 public:
  SharedVectorAndRow(const SpmvProblem<T>& problem, Exec& exec, Index tile_columns)
      : DeviceSpmvPlan<T>(problem, exec),
        tile_(std::min(
            {tile_columns, problem.a->cols, most_tile_columns<T>(sizeof(T) * kRows * (kWarps + 1))})),
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
           {.grid = blocks_for(a.rows, kRows),
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

void add_shared_vector_and_row(Registry& registry, const std::string& name, Index tile_columns) {
  registry.add<SharedVectorAndRow>(
      {.name = name,
       .idea = "32 threads per row beside x in shared memory: loads in flight fill the chip",
       .needs = {.gpu = true}},
      tile_columns);
}

}  // namespace stages
