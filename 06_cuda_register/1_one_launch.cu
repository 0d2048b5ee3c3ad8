// One launch for all products; the matrix is read in each of them.
//
// The idea: step 5 launches a kernel for each vector. Here one kernel does all products: a block keeps its rows
// and takes one vector after the other. It copies x to shared memory, a thread multiplies its row by it, and
// the next x follows. What is saved are the launches (an H100 takes about 2 us to start a kernel), and a
// block's part of the matrix may stay in L1. It is still read in each product; 2_row_in_registers.cu reads it
// once.
//
// The loop over a row, x in shared memory and the 128 threads of a block are those of step 5's two_arrays. Rows
// are in CSR here, so they may be of any length; the row pointers are read once.
//
// Two barriers a product: no thread reads x before it is copied, nor overwrites it before all have read it.
//
// Requires: x in a block's shared memory, independent vectors. Cost: (4 + sizeof(T)) x nnz bytes a product.

#include "06_cuda_register/one_launch.hpp"
#include "06_cuda_register/stage.hpp"

namespace stages {
namespace {

constexpr int kBlock = 128;

template <class T>
__global__ void __launch_bounds__(kBlock)
    one_launch(CsrView<T, std::int32_t> a, const T* x, T* y, int products) {
  T* const xs = dynamic_shared<T>();                                               // x
  const auto row = static_cast<Index>(Offset{blockIdx.x} * kBlock + threadIdx.x);  // 32 bits, as measured
  const std::int32_t begin = row < a.rows ? a.row_ptr[row] : 0, end = row < a.rows ? a.row_ptr[row + 1] : 0;
  for (int j = 0; j < products; ++j) {
    __syncthreads();  // the product before is done with xs
    for (int c = static_cast<int>(threadIdx.x); c < a.cols; c += kBlock) xs[c] = x[Offset{j} * a.cols + c];
    __syncthreads();
    T sum = 0;
#pragma unroll 8
    for (std::int32_t p = begin; p < end; ++p) sum += a.values[p] * xs[a.col_idx[p]];
    if (row < a.rows) y[Offset{j} * a.rows + row] = sum;
  }
}

template <class T>
class OneLaunch final : public OneLaunchPlan<T, 0> {
 public:
  OneLaunch(const SpmvProblem<T>& problem, Exec& exec) : OneLaunchPlan<T, 0>(problem, exec) {
    allow_shared_bytes(one_launch<T>, this->shared_bytes(this->a()));
  }

  void run() override { this->launch_once(one_launch<T>, blocks_for(this->a().rows, kBlock), kBlock); }
};

}  // namespace

void add_one_launch(Registry& registry) {
  registry.add<OneLaunch>({.name = "06_cuda_register/one_launch",
                           .idea = "one launch for all vectors; the matrix is read again for each",
                           .previous = "05_cuda_csr/two_arrays"});
}

}  // namespace stages
