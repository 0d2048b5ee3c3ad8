// Cutting rows into tasks: each row counts the tasks that it begins, a prefix sum numbers them, and each task
// finds its row by binary search. No step goes through the rows one by one.

#include "07_spmm/tasks.hpp"
#include "common/gpu/facts.hpp"
#include "common/gpu/scan.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kBlock = 256;

template <class Ptr>
__device__ bool is_short(const Ptr* row_ptr, Index row, const Constants& c) {
  return c.merged_rows > 1 && row_ptr[row + 1] - row_ptr[row] <= static_cast<Ptr>(c.short_row);
}

/// How many tasks begin in each row.
template <class Ptr>
__global__ void count_tasks(const Ptr* row_ptr, Index rows, Constants c, Index* counts) {
  const Offset thread = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (thread >= rows) return;
  const auto row = static_cast<Index>(thread);
  if (is_short(row_ptr, row, c)) {
    counts[row] = row % c.merged_rows == 0 || !is_short(row_ptr, row - 1, c);
    return;
  }
  const auto length = static_cast<Offset>(row_ptr[row + 1] - row_ptr[row]);
  counts[row] = static_cast<Index>((length + c.step - 1) / c.step);
}

/// The last of `n` ascending numbers that is not above `value`; the first is not.
__device__ inline Index last_not_above(const Offset* numbers, Index n, Offset value) {
  Index low = 0, high = n;
  while (high - low > 1) {
    const Index middle = low + (high - low) / 2;
    (numbers[middle] <= value ? low : high) = middle;
  }
  return low;
}

/// Task t, for each t. `first`: the first task of each row.
template <class Ptr>
__global__ void fill_tasks(const Ptr* row_ptr, Index rows, Constants c, const Offset* first, Offset count,
                           Task<Ptr>* tasks) {
  const Offset t = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (t >= count) return;
  const Index row = last_not_above(first, rows, t);
  Task<Ptr> task{row_ptr[row], row_ptr[row + 1], row, 1};
  if (is_short(row_ptr, row, c)) {
    Index next = row + 1;
    while (next < rows && next % c.merged_rows != 0 && is_short(row_ptr, next, c)) ++next;
    task.end = row_ptr[next];
    task.rows = next - row;
  } else {
    const auto step = static_cast<Ptr>(c.step);
    task.begin += static_cast<Ptr>(t - first[row]) * step;
    if (task.end - task.begin > step) task.end = task.begin + step;
  }
  tasks[t] = task;
}

}  // namespace

template <class T>
Constants default_constants(const SpmmProblem<T>& problem, Constants given) {
  const Csr<T>& a = *problem.a;
  const DeviceFacts& device = device_facts();
  const Offset warps = Offset{device.sms} * (device.max_threads_per_sm / static_cast<int>(kWarp));
  const Offset mean = a.rows == 0 ? 0 : a.nnz() / a.rows;
  if (given.step == 0) {
    const Offset even = (a.nnz() / warps + kWarp - 1) / kWarp * kWarp;
    given.step = static_cast<Index>(std::clamp<Offset>(even, 128, Offset{1} << 30));
  }
  if (given.short_row == 0) given.short_row = static_cast<Index>(std::clamp<Offset>(mean, 1, kWarp / 2));
  given.short_row = std::min(given.short_row, static_cast<Index>(kWarp));
  const Index fitting = static_cast<Index>(kWarp) / given.short_row;
  given.merged_rows = given.merged_rows == 0 ? fitting : std::min(given.merged_rows, fitting);
  if (given.per_lane == 0) given.per_lane = problem.n_cols <= static_cast<Index>(kWarp) ? 1 : 2;
  return given;
}

template <class Ptr>
DeviceArray<Task<Ptr>> cut_tasks(const Ptr* row_ptr, Index rows, const Constants& constants,
                                 cudaStream_t stream) {
  if (rows == 0) return {};
  const auto n = static_cast<std::size_t>(rows);
  DeviceArray<Index> counts(n);
  DeviceArray<Offset> first(n + 1);
  PrefixSum<Index, Offset> sum;
  launch(count_tasks<Ptr>, {.grid = blocks_for(rows, kBlock), .block = kBlock, .stream = stream}, row_ptr,
         rows, constants, counts.data());
  sum.run(counts.data(), first.data(), rows, stream);
  Offset count = 0;
  STAGES_CUDA(cudaMemcpyAsync(&count, first.data() + n, sizeof count, cudaMemcpyDeviceToHost, stream));
  STAGES_CUDA(cudaStreamSynchronize(stream));
  DeviceArray<Task<Ptr>> tasks(static_cast<std::size_t>(count));
  launch(fill_tasks<Ptr>, {.grid = blocks_for(count, kBlock), .block = kBlock, .stream = stream}, row_ptr,
         rows, constants, first.data(), count, tasks.data());
  STAGES_CUDA(cudaStreamSynchronize(stream));
  return tasks;
}

STAGES_FOR_VALUES(default_constants)
STAGES_FOR_POINTERS(cut_tasks)

}  // namespace stages::spmm
