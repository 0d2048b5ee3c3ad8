// Task: find the fault in the kernel, and mend it: y = A x in CSR with a thread per row.
// Reference: 05_cuda_csr/thread_per_row
// Speed: gen:fixed:n=4096,zeros=0.98
// At most: 45 requests in loads of rows
//
// The original's CSR step had matrices whose rows all have the same number of non-zeros, and left the row
// pointers away: row i begins at i times that number. Somebody has taken the kernel over for all matrices. It
// is still right for the original's.
//
// Say before you run it: which classes of input will be lost, and does any non-zero that it reads lie outside
// of the arrays?

#include "micro/spmv.hpp"

namespace stages {
namespace {

using micro::DeviceRows;
constexpr unsigned kBlock = 128;

template <class T>
__global__ void multiply(DeviceRows<T> a, const T* x, T* y) {
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

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmv<micro::CsrSpmv>(
      registry, {.name = "task/row_lengths", .idea = "a thread per row"},
      []<class T>(const DeviceRows<T>& a, const T* x, T* y, cudaStream_t stream) {
        launch(multiply<T>, {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = stream}, a, x, y);
      });
}

}  // namespace stages
