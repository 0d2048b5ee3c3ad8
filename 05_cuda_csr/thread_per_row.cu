// SpMV from CSR, a thread per row.
//
// The idea: equal_rows.cu with row pointers, so that rows may be of any length. Each thread walks along its
// own row.
//
// It goes wrong twice, and both are the reason for the next file. Neighbouring threads stand a row apart, as
// in 03_cuda_naive/dense_row_major.cu, so loads don't coalesce. And a warp is done when its longest row is:
// on a matrix with one row of 100,000 entries, one thread walks for a while after all others have gone.
//
// Input: any CSR matrix. Cost: (4 + sizeof(T)) x nnz bytes and the row pointers; the time of the longest row,
// about one trip to L2 (some 250 ns) for each few entries.

#include "05_cuda_csr/stage.hpp"
#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;

template <class T, class Ptr>
__global__ void multiply(CsrView<T, Ptr> a, const T* x, T* y) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread >= static_cast<unsigned>(a.rows)) return;
  const Ptr end = a.row_ptr[thread + 1];
  T sum = 0;
  for (Ptr p = a.row_ptr[thread]; p < end; ++p) sum += a.values[p] * x[a.col_idx[p]];
  y[thread] = sum;
}

template <class T>
class ThreadPerRow final : public DeviceSpmvPlan<T> {
 public:
  ThreadPerRow(const SpmvProblem<T>& problem, Exec& exec)
      : DeviceSpmvPlan<T>(problem, exec), matrix_(to_device(*problem.a)) {}

  static Cost cost(const SpmvProblem<T>& problem) {
    Cost cost = problem_cost(problem);
    cost.memory += device_csr_bytes(*problem.a);
    return cost;
  }

 protected:
  void product(const T* x, T* y) override {
    std::visit([&](const auto& a) { multiply_with(a.view(), x, y); }, matrix_);
  }

 private:
  template <class Ptr>
  void multiply_with(const CsrView<T, Ptr>& a, const T* x, T* y) {
    launch(multiply<T, Ptr>, {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = this->stream()},
           a, x, y);
  }

  AnyDeviceCsr<T> matrix_;
};

}  // namespace

void add_thread_per_row(Registry& registry) {
  registry.add<ThreadPerRow>({.name = "05_cuda_csr/thread_per_row",
                              .idea = "CSR, a thread per row: neighbouring threads read far from each other",
                              .needs = {.gpu = true}});
}

}  // namespace stages
