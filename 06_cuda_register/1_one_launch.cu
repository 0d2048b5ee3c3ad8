// One launch for all products; the matrix is read in each of them.
//
// The idea: step 5 launches a kernel for each vector. Here one kernel does all products: a block keeps its rows
// and takes one vector after the other. It copies x to shared memory, a thread multiplies its row by it, and
// the next x follows. What is saved is the launch (about 2 us each on an H200). The matrix is still read in each
// product, from L2 or, where it fits, from L1. 2_row_in_registers.cu reads it once.
//
// Two barriers a product: no thread reads x before it has been copied, and no thread overwrites it before all
// have read it.
//
// Requires: x in a block's shared memory, independent vectors. Cost: (4 + sizeof(T)) x nnz bytes a product.

#include "06_cuda_register/stage.hpp"
#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"

namespace stages {
namespace {

constexpr int kBlock = 64;

template <class T>
__global__ void __launch_bounds__(kBlock)
    one_launch(CsrView<T, std::int32_t> a, const T* x, T* y, int products) {
  T* const xs = dynamic_shared<T>();  // x
  const int row = static_cast<int>(blockIdx.x * kBlock + threadIdx.x);
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
std::size_t shared_bytes_for(const Csr<T>& a) {
  return sizeof(T) * static_cast<std::size_t>(a.cols);
}

template <class T>
class OneLaunch final : public DeviceSpmvPlan<T> {
 public:
  OneLaunch(const SpmvProblem<T>& problem, Exec& exec) : DeviceSpmvPlan<T>(problem, exec), a_(*problem.a) {
    allow_shared_bytes(one_launch<T>, shared_bytes_for(*problem.a));
  }

  void run() override {
    launch(one_launch<T>,
           {.grid = blocks_for(this->a().rows, kBlock),
            .block = kBlock,
            .shared_bytes = shared_bytes_for(this->a()),
            .stream = this->stream()},
           a_.view(), this->x_of(0), this->y_of(0), this->problem().products);
  }

  static Cost cost(const SpmvProblem<T>& problem) {
    Cost cost = problem_cost(problem);
    cost.memory += device_csr_bytes(*problem.a);
    return cost;
  }
  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec&) {
    const Csr<T>& a = *problem.a;
    if (problem.mode == Mode::chain) {
      return fmt::format(
          "a block sees only its own rows of y, and these {} products are a chain; see chain_words",
          problem.products);
    }
    if (!std::in_range<std::int32_t>(a.nnz()))
      return fmt::format("{} non-zeros need 64-bit row pointers", a.nnz());
    if (shared_bytes_for(a) > device_facts().shared_per_block_optin) {
      return fmt::format("x needs {} bytes of shared memory; a block has {}", shared_bytes_for(a),
                         device_facts().shared_per_block_optin);
    }
    return std::nullopt;
  }

 private:
  void product(const T*, T*) override {}  // run() does them all in one launch
  DeviceCsr<T, std::int32_t> a_;
};

}  // namespace

void add_one_launch(Registry& registry) {
  registry.add<OneLaunch>({.name = "06_cuda_register/one_launch",
                           .idea = "one launch for all vectors; the matrix is read again for each",
                           .needs = {.gpu = true}});
}

}  // namespace stages
