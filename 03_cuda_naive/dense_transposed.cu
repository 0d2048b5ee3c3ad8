// SpMV on the matrix written out in full, a thread per row, stored so that loads coalesce.
//
// The idea: keep the kernel of dense_row_major.cu and turn the matrix. It is stored column by column, so at
// step j the 32 threads of a warp read 32 neighbouring numbers of column j: one load of 128 bytes, all of
// them wanted, instead of 32 sectors of which an eighth is wanted at once. Each thread still walks along its
// own row. All threads read the same x[j], which is a broadcast and costs a single sector.
//
// Input: any matrix whose dense form fits. Cost: as before, rows x cols multiplications and sizeof(T) x rows
// x cols bytes; now the bytes are read once, without help from a cache. What remains: rows threads are all
// there are, so n = 1024 leaves nine in ten SMs idle, and four fifths of the bytes are zeros.
//
// Source: the coalesced form is the one that the course project calls its naive step (125.08 ms for 1000
// products of n = 1024 on a GTX 1080 Ti).

#include "03_cuda_naive/stage.hpp"
#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"
#include "common/matrix/convert.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;

/// y = A x with element (i, j) of A at a.data[j * a.ld + i].
template <class T>
__global__ void multiply(DenseView<const T> a, const T* x, T* y) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread >= static_cast<unsigned>(a.rows)) return;  // the last block may reach beyond the matrix
  const T* element = a.data + thread;
  T sum = 0;
  for (Index j = 0; j < a.cols; ++j) sum += element[j * a.ld] * x[j];
  y[thread] = sum;
}

template <class T>
class DenseTransposed final : public DeviceSpmvPlan<T> {
 public:
  DenseTransposed(const SpmvProblem<T>& problem, Exec& exec)
      : DeviceSpmvPlan<T>(problem, exec),
        dense_(std::span<const T>(to_dense(*problem.a, Layout::col_major).data)) {}

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
    launch(multiply<T>, {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = this->stream()},
           dense, x, y);
  }

 private:
  DeviceArray<T> dense_;
};

}  // namespace

void add_dense_transposed(Registry& registry) {
  registry.add<DenseTransposed>(
      {.name = "03_cuda_naive/dense_transposed",
       .idea = "the same stored column by column: neighbouring threads read neighbouring numbers",
       .needs = {.gpu = true}});
}

}  // namespace stages
