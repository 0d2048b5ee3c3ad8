// Task: fill in the scan of a warp: lengths of rows become the places where they begin.
// Step: 05_cuda_csr
// Reference: 05_cuda_csr/thread_per_row
// At most: 120 barriers
// At most: 0 requests in shared accesses
//
// Row pointers are a scan of the lengths of rows: row_ptr[i + 1] is the sum of the lengths 0 .. i. It looks as
// if each sum had to wait for the one before. But 32 lanes need five steps: in each, a lane adds what the lane
// d places before it holds, and d doubles. __shfl_up_sync(kAllLanes, v, d) gives it; the first d lanes have no
// such lane, and add nothing. A shuffle counts as a barrier, because all lanes come to it: 600 rows take
// 19 rounds with five of yours and the one behind them, which are 114.
//
//   lengths    3   1   0   4   2   2   1   5
//   d = 1      3   4   1   4   6   4   3   6        each is the sum of 2 lengths
//   d = 2      3   4   4   8   7   8   9  10        ... of 4
//   d = 4      3   4   4   8  10  12  13  18        ... of 8: done
//
// Hint: Which lane has no lane two places before it? What must it do at d = 2, and which call must it not miss?
// Hint: All lanes call the shuffle, then only those with lane >= d add what came.
// Hint: for (unsigned d = 1; d < 32; d *= 2) { const Index other = __shfl_up_sync(...); if (lane >= d) ...; }

#include "micro/spmv.hpp"

namespace stages {
namespace {

using micro::DeviceRows, micro::kAllLanes, micro::kWarp;
constexpr unsigned kBlock = 128;

/// The sum of the counts of this lane and all lanes before it. All lanes come.
__device__ Index scan_of_warp(Index count, unsigned lane) {
  Index sum = count;
  // SOLUTION
  for (unsigned d = 1; d < kWarp; d *= 2) {
    const Index other = __shfl_up_sync(kAllLanes, sum, d);
    if (lane >= d) sum += other;
  }
  // STUDENT
  // Your code. Until then the sum is the lane's own count.
  static_cast<void>(lane);
  // END
  return sum;
}

/// row_ptr of `rows` rows from their lengths: a warp takes 32 at a time, and carries on what they sum to.
__global__ void scan(const Index* lengths, Index rows, std::int32_t* row_ptr) {
  const unsigned lane = threadIdx.x;
  Index before = 0;
  if (lane == 0) row_ptr[0] = 0;
  for (Index first = 0; first < rows; first += 32) {
    const Index i = first + static_cast<Index>(lane);
    const Index sum = before + scan_of_warp(i < rows ? lengths[i] : 0, lane);
    if (i < rows) row_ptr[i + 1] = sum;
    before = __shfl_sync(kAllLanes, sum, 31);
  }
}

template <class T>
__global__ void multiply(DeviceRows<T> a, const T* x, T* y) {
  const auto i = static_cast<Index>(blockIdx.x * kBlock + threadIdx.x);
  if (i >= a.rows) return;
  T sum = 0;
  for (std::int32_t p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) sum += a.values[p] * x[a.col_idx[p]];
  y[i] = sum;
}

/// Throws Error where row_ptr says what is not so, before anybody reads at such a place.
template <class T>
void require_right(const std::vector<std::int32_t>& found, const Csr<T>& a) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] != a.row_ptr[i])
      fail("row_ptr[{}] is {}, but {} entries lie before row {}", i, found[i], a.row_ptr[i], i);
  }
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmv<micro::CsrSpmv>(
      registry, {.name = "micro/scan_of_counts", .idea = "lengths become row pointers"},
      []<class T>(const DeviceRows<T>& a, const T* x, T* y, cudaStream_t stream, const Csr<T>& host) {
        std::vector<Index> rows;
        for (Index i = 0; i < host.rows; ++i) rows.push_back(static_cast<Index>(host.row_nnz(i)));
        const DeviceArray<Index> lengths{std::span<const Index>(rows)};
        DeviceArray<std::int32_t> row_ptr(rows.size() + 1);
        launch(scan, {.grid = 1, .block = kWarp, .stream = stream}, lengths.data(), a.rows, row_ptr.data());
        require_right(row_ptr.to_host(), host);
        const DeviceRows<T> scanned{a.rows, a.cols, row_ptr.data(), a.col_idx, a.values};
        launch(multiply<T>, {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = stream}, scanned,
               x, y);
      });
}

}  // namespace stages
