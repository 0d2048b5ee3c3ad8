// SpMV on the matrix written out in full, a thread per row: the first kernel that anybody writes.
//
// The idea: rows are independent, so each gets a thread, which walks along its row. The zeros are stored and
// multiplied like everything else; there is no index to look up.
//
// Its cost is decided by something that the source does not show. A warp's 32 threads execute each load
// together, and here they stand on 32 different rows: 32 addresses a whole row apart. Memory is read in
// sectors of 32 bytes, so each load fetches 32 sectors of which 4 bytes are wanted. The other 28 are wanted
// by the next seven steps of the loop, so all depends on whether the cache still holds them by then; at 2048
// threads to an SM, each holding a 128-byte line, it needs 256 KB, which is all that an SM has.
// dense_transposed.cu is this file with one subscript changed.
//
// Input: any matrix whose dense form fits. Cost: rows x cols multiplications, sizeof(T) x rows x cols bytes.
//
// Source: the first GPU step of a course project on SpMV (80 % zeros, n = 256 and 1024).

#include "03_cuda_naive/stage.hpp"
#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"
#include "common/matrix/convert.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;

/// y = A x with element (i, j) of A at a.data[i * a.ld + j].
template <class T>
__global__ void multiply(DenseView<const T> a, const T* x, T* y) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread >= static_cast<unsigned>(a.rows)) return;  // the last block may reach beyond the matrix
  const T* row = a.data + thread * a.ld;
  T sum = 0;
  for (Index j = 0; j < a.cols; ++j) sum += row[j] * x[j];
  y[thread] = sum;
}

template <class T>
class DenseRowMajor final : public DeviceSpmvPlan<T> {
 public:
  DenseRowMajor(const SpmvProblem<T>& problem, Exec& exec)
      : DeviceSpmvPlan<T>(problem, exec), dense_(std::span<const T>(to_dense(*problem.a).data)) {}

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
    const DenseView<const T> dense{a.rows, a.cols, a.cols, Layout::row_major, dense_.data()};
    launch(multiply<T>, {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = this->stream()},
           dense, x, y);
  }

 private:
  DeviceArray<T> dense_;
};

}  // namespace

void add_dense_row_major(Registry& registry) {
  registry.add<DenseRowMajor>(
      {.name = "03_cuda_naive/dense_row_major",
       .idea = "zeros stored, a thread per row, neighbours a row apart: loads do not coalesce",
       .needs = {.gpu = true}});
}

}  // namespace stages
