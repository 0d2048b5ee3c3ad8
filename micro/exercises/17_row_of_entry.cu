// Task: fill in the binary search for the row of a non-zero in row_ptr.
// Step: 05_cuda_csr
// Reference: 05_cuda_csr/thread_per_row
// At most: 3,000 requests in loads of rows
//
// With a thread for each non-zero a long row is no burden: each thread has one multiplication. But CSR does not
// say in which row non-zero p lies. It lies in the last row with row_ptr[row] <= p. row_ptr ascends, so a
// search that halves finds it in log2(rows) steps. An empty row begins where the next row begins: so it is not
// the last one.
//
//   row_ptr   0   3   3   7   8         non-zero 3: rows 1 and 2 begin at 3, row 1 is empty
//   row       0   1   2   3             low = 0, high = 4: middle 2 begins at 3 <= 3, so low = 2
//                 ^   ^                                    middle 3 begins at 7 > 3,  so high = 3
//                 |   row of non-zeros 3 .. 6              high - low == 1: it is row low
//                 empty
//
// Hint: What do you know of the row that you look for if row_ptr[middle] <= p? And if it is larger?
// Hint: Keep row_ptr[low] <= p < row_ptr[high] true. It is so at the beginning, with low = 0 and high = rows.
// Hint: while (high - low > 1) { middle = (low + high) / 2; one of the two becomes middle; } return low;

#include <cmath>

#include "micro/spmv.hpp"

namespace stages {
namespace {

using micro::DeviceRows;
constexpr unsigned kBlock = 128;

/// The row of non-zero p, which is one: rows > 0.
__device__ Index row_of(const std::int32_t* row_ptr, Index rows, std::int32_t p) {
  Index low = 0, high = rows;
  // SOLUTION
  while (high - low > 1) {
    const Index middle = (low + high) / 2;
    if (row_ptr[middle] <= p) {
      low = middle;
    } else {
      high = middle;
    }
  }
  // STUDENT
  // Your code. Until then all non-zeros are in the first row.
  static_cast<void>(row_ptr), static_cast<void>(high), static_cast<void>(p);
  // END
  return low;
}

/// A thread a non-zero: its product, and the row that it goes to.
template <class T>
__global__ void products(DeviceRows<T> a, std::int32_t nnz, const T* x, T* product, Index* row) {
  const auto p = static_cast<std::int32_t>(blockIdx.x * kBlock + threadIdx.x);
  if (p >= nnz) return;
  product[p] = a.values[p] * x[a.col_idx[p]];
  row[p] = row_of(a.row_ptr, a.rows, p);
}

/// A thread a row: adds up its products. What was sent to another row is not there: the sum is no number.
template <class T>
__global__ void add_up(DeviceRows<T> a, const T* product, const Index* row, T* y) {
  const auto i = static_cast<Index>(blockIdx.x * kBlock + threadIdx.x);
  if (i >= a.rows) return;
  T sum = 0;
  for (std::int32_t p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) sum += row[p] == i ? product[p] : T(NAN);
  y[i] = sum;
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmv<micro::CsrSpmv>(
      registry, {.name = "micro/row_of_entry", .idea = "a thread per entry"},
      []<class T>(const DeviceRows<T>& a, const T* x, T* y, cudaStream_t stream, const Csr<T>& host) {
        const auto nnz = static_cast<std::int32_t>(host.nnz());
        DeviceArray<T> product(host.values.size());
        DeviceArray<Index> row(host.values.size());
        launch(products<T>, {.grid = blocks_for(nnz, kBlock), .block = kBlock, .stream = stream}, a, nnz, x,
               product.data(), row.data());
        launch(add_up<T>, {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = stream}, a,
               product.data(), row.data(), y);
      });
}

}  // namespace stages
