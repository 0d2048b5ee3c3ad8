// Task: fill in the histogram of a block: how many of its rows are in which bin?
// Step: 08_spgemm_multigpu
// Reference: 05_cuda_csr/thread_per_row
// At most: 32 requests in global atomics
// No race
//
// Rows are sorted into bins by their length, so that rows of a kind are multiplied together. First somebody
// must count: a thread has a row, and adds one to its bin. Many threads add to the same bin at once: only
// atomicAdd counts them all. The block counts in shared memory, where that is quick, and goes to global memory
// once a bin.
//
//   rows of the block   5  1  0  9  1  1  ...          lengths; bin 0: 0, bin 1: 1, bin 2: 2 .. 3, ...
//   shared bins        [1][3][0][1][1] ...             1. set to 0  2. count  3. add to the global bins
//                                                         |barrier     |barrier
//
// A warp's atomics to global memory are one request. 600 rows are 19 warps in 10 blocks: the count takes 10
// requests, and the sorting behind it, which is there, 19.
//
// Hint: Two threads find 3 in a bin, and both write 4. What is lost? And when may a thread begin to count?
// Hint: Three parts with a barrier between them. In the first and the third, thread b does bin b, b < kBins.
// Hint: if (t < kBins) mine[t] = 0; __syncthreads(); if (has_row) atomicAdd(&mine[bin], 1); __syncthreads();
//   if (t < kBins) add mine[t] to bins[t], again by atomicAdd: other blocks do so, too.

#include "micro/spmv.hpp"

namespace stages {
namespace {

using micro::DeviceRows;
constexpr unsigned kBlock = 64, kBins = 16;

/// 0 for an empty row, 1 for one non-zero, 2 for 2 .. 3, 3 for 4 .. 7 non-zeros, and so on.
__device__ unsigned bin_of(std::int32_t length) {
  return min(kBins - 1, 32u - static_cast<unsigned>(__clz(length)));
}

/// Adds to bins[b] how many rows are in bin b.
__global__ void count(const std::int32_t* row_ptr, Index rows, int* bins) {
  __shared__ int mine[kBins];
  const unsigned t = threadIdx.x, i = blockIdx.x * kBlock + t;
  const bool has_row = i < static_cast<unsigned>(rows);
  const unsigned bin = has_row ? bin_of(row_ptr[i + 1] - row_ptr[i]) : 0;
  // SOLUTION
  if (t < kBins) mine[t] = 0;
  __syncthreads();
  if (has_row) atomicAdd(&mine[bin], 1);
  __syncthreads();
  if (t < kBins) atomicAdd(&bins[t], mine[t]);
  // STUDENT
  // Your code. Until then nobody counts.
  static_cast<void>(bins), static_cast<void>(bin), static_cast<void>(mine);
  // END
}

/// Each row takes the next free place of its bin: next[b] is where bin b begins, and moves on.
__global__ void sort_rows(const std::int32_t* row_ptr, Index rows, int* next, Index* order) {
  const auto i = static_cast<Index>(blockIdx.x * kBlock + threadIdx.x);
  if (i < rows) order[atomicAdd(&next[bin_of(row_ptr[i + 1] - row_ptr[i])], 1)] = i;
}

template <class T>
__global__ void multiply(DeviceRows<T> a, const Index* order, const T* x, T* y) {
  const auto place = static_cast<Index>(blockIdx.x * kBlock + threadIdx.x);
  if (place >= a.rows) return;
  const Index i = order[place];
  T sum = 0;
  for (std::int32_t p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) sum += a.values[p] * x[a.col_idx[p]];
  y[i] = sum;
}

/// Where each bin begins. Throws Error where the counts are not those of the rows.
template <class T>
std::vector<int> places(const std::vector<int>& counted, const Csr<T>& a) {
  std::vector<int> expected(kBins, 0), begins(kBins, 0);
  for (Index i = 0; i < a.rows; ++i) {
    const auto length = static_cast<unsigned>(a.row_nnz(i));
    ++expected[std::min<std::size_t>(kBins - 1, static_cast<std::size_t>(std::bit_width(length)))];
  }
  for (std::size_t b = 0; b < kBins; ++b) {
    if (counted[b] != expected[b]) fail("bin {} counts {} rows, and has {}", b, counted[b], expected[b]);
    if (b > 0) begins[b] = begins[b - 1] + counted[b - 1];
  }
  return begins;
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmv<micro::CsrSpmv>(
      registry, {.name = "micro/histogram", .idea = "rows by length"},
      []<class T>(const DeviceRows<T>& a, const T* x, T* y, cudaStream_t stream, const Csr<T>& host) {
        const LaunchConfig config{.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = stream};
        DeviceArray<int> bins(kBins);
        DeviceArray<Index> order(static_cast<std::size_t>(a.rows));
        bins.zero(stream);
        launch(count, config, a.row_ptr, a.rows, bins.data());
        const std::vector<int> begins = places(bins.to_host(), host);
        bins.upload(std::span<const int>(begins), stream);
        launch(sort_rows, config, a.row_ptr, a.rows, bins.data(), order.data());
        launch(multiply<T>, config, a, order.data(), x, y);
        STAGES_CUDA(cudaStreamSynchronize(stream));  // begins has been read
      });
}

}  // namespace stages
