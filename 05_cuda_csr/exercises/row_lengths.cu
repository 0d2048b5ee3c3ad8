// Task: find the fault in the kernel, and mend it: y = A x in CSR with a thread per row.
// Reference: 05_cuda_csr/thread_per_row
// Speed: gen:fixed:n=4096,zeros=0.98
// At most: 45 requests in loads of rows
//
// The original's CSR step had matrices whose rows all have the same number of non-zeros, and left the row
// pointers away: row i begins at i times that number. Somebody has taken the kernel over for all matrices. It
// is still right for the original's.
//
// Say before you run it: which classes of input will be lost, and does any entry that it reads lie outside of
// the arrays?

#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"
#include "common/harness/registry.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;

template <class T>
__global__ void multiply(CsrView<T, std::int32_t> a, const T* x, T* y) {
  const int row = static_cast<int>(blockIdx.x * kBlock + threadIdx.x);
  if (row >= a.rows) return;
  // SOLUTION
  const std::int32_t begin = a.row_ptr[row], end = a.row_ptr[row + 1];
  // STUDENT
  const std::int32_t length = a.row_ptr[a.rows] / a.rows;
  const std::int32_t begin = row * length, end = begin + length;
  // END
  T sum = 0;
  for (std::int32_t p = begin; p < end; ++p) sum += a.values[p] * x[a.col_idx[p]];
  y[row] = sum;
}

template <class T>
class MyRows final : public DeviceSpmvPlan<T> {
 public:
  MyRows(const SpmvProblem<T>& problem, Exec& exec) : DeviceSpmvPlan<T>(problem, exec), a_(*problem.a) {}

  static Cost cost(const SpmvProblem<T>& problem) { return problem_cost(problem); }

 protected:
  void product(const T* x, T* y) override {
    launch(multiply<T>, {.grid = blocks_for(a_.rows, kBlock), .block = kBlock, .stream = this->stream()},
           a_.view(), x, y);
  }

 private:
  DeviceCsr<T, std::int32_t> a_;
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<MyRows>({.name = "task/row_lengths", .idea = "a thread per row", .needs = {.gpu = true}});
}

}  // namespace stages
