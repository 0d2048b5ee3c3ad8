// Task: fill in the first row of a block's share: all have about equally many non-zeros.
// Step: 05_cuda_csr
// Reference: 05_cuda_csr/thread_per_row
// At most: 500 requests in loads of rows
//
// 16 blocks share the rows of A. As many rows for each is not as much work for each: rows have different
// lengths. row_ptr is the prefix sum of the lengths, so it says how much work lies before any row. Share s
// begins at the first row before which at least nnz * s / 16 non-zeros lie, rounded down. A share is whole
// rows, and ends where the next one begins; no row may be left out, and the empty rows at the end are rows,
// too.
//
//   row        0   1   2   3   4   5   6   7          here with 2 shares, and 12 non-zeros
//   length     6   1   1   1   1   1   1   0
//   row_ptr    0   6   7   8   9  10  11  12
//              |---|-------------------------|
//              share 0   share 1: it begins at the first row with row_ptr[row] >= 1 * 12 / 2
//
// Hint: How many non-zeros should lie before share s? In the drawing, which row is that for s = 1?
// Hint: first_at_least(row_ptr, rows, entries) searches row_ptr for you. Share 16 begins behind the last row.
// Hint: if (s == kShares) return rows; and else first_at_least(...) of nnz * s / kShares non-zeros.

#include "micro/balance.hpp"
#include "micro/spmv.hpp"

namespace stages {
namespace {

using micro::DeviceRows;
constexpr unsigned kBlock = 32;
constexpr Index kShares = 16;

/// The first row before which at least `entries` non-zeros lie; `rows` if there is none.
[[maybe_unused]] __device__ Index first_at_least(const std::int32_t* row_ptr, Index rows,
                                                 std::int32_t entries) {
  Index low = 0, high = rows;
  while (low < high) {
    const Index middle = (low + high) / 2;
    if (row_ptr[middle] < entries) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// The first row of share s, 0 <= s <= kShares: share s is the rows from there to the first of share s + 1.
__device__ Index first_row(const std::int32_t* row_ptr, Index rows, std::int32_t nnz, Index s) {
  // SOLUTION
  if (s == kShares) return rows;
  return first_at_least(row_ptr, rows, nnz * s / kShares);
  // STUDENT
  // Your code. Until then each share has rows / 16 rows, and what is left over is lost.
  static_cast<void>(row_ptr), static_cast<void>(nnz);
  return rows / kShares * s;
  // END
}

__global__ void deal(const std::int32_t* row_ptr, Index rows, std::int32_t nnz, Index* firsts) {
  const auto s = static_cast<Index>(threadIdx.x);
  if (s <= kShares) firsts[s] = first_row(row_ptr, rows, nnz, s);
}

template <class T>
__global__ void multiply(DeviceRows<T> a, const Index* firsts, const T* x, T* y) {
  const Index end = firsts[blockIdx.x + 1];
  for (Index i = firsts[blockIdx.x] + static_cast<Index>(threadIdx.x); i < end; i += 32) {
    T sum = 0;
    for (std::int32_t p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) sum += a.values[p] * x[a.col_idx[p]];
    y[i] = sum;
  }
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmv<micro::CsrSpmv>(
      registry, {.name = "micro/balance", .idea = "equal shares of the entries"},
      []<class T>(const DeviceRows<T>& a, const T* x, T* y, cudaStream_t stream, const Csr<T>& host) {
        DeviceArray<Index> firsts(kShares + 1);
        launch(deal, {.grid = 1, .block = kBlock, .stream = stream}, a.row_ptr, a.rows,
               static_cast<std::int32_t>(host.nnz()), firsts.data());
        micro::require_balance(firsts.to_host(), host.row_ptr, 0, "share", "entries");
        launch(multiply<T>, {.grid = kShares, .block = kBlock, .stream = stream}, a, firsts.data(), x, y);
      });
}

}  // namespace stages
