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
  return c.rows > 1 && row_ptr[row + 1] - row_ptr[row] <= static_cast<Ptr>(c.longest);
}

/// How many tasks begin in each row.
template <class Ptr>
__global__ void count_tasks(const Ptr* row_ptr, Index rows, Constants c, Index* counts) {
  const Offset thread = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (thread >= rows) return;
  const auto row = static_cast<Index>(thread);
  if (is_short(row_ptr, row, c)) {
    counts[row] = row % c.rows == 0 || !is_short(row_ptr, row - 1, c);
    return;
  }
  const auto length = static_cast<Offset>(row_ptr[row + 1] - row_ptr[row]);
  counts[row] = static_cast<Index>((length + c.chunk - 1) / c.chunk);
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
    while (next < rows && next % c.rows != 0 && is_short(row_ptr, next, c)) ++next;
    task.end = row_ptr[next];
    task.rows = next - row;
  } else {
    const auto chunk = static_cast<Ptr>(c.chunk);
    task.begin += static_cast<Ptr>(t - first[row]) * chunk;
    if (task.end - task.begin > chunk) task.end = task.begin + chunk;
  }
  tasks[t] = task;
}

}  // namespace

template <class T>
Constants constants_of(const SpmmProblem<T>& problem, const ParameterValues& values) {
  constexpr Index kPlaces = kWarp;  // of one staging
  const Csr<T>& a = *problem.a;
  const DeviceFacts& device = device_facts();
  const Offset warps = Offset{device.sms} * (device.max_threads_per_sm / kPlaces);
  const Offset mean = a.rows == 0 ? 0 : a.nnz() / a.rows;
  const Offset even = (a.nnz() / warps + kPlaces - 1) / kPlaces * kPlaces;
  const auto or_rule = [&](const Parameter& parameter, Offset rule) {
    const Index value = chosen(values, parameter.name);
    return value > 0 ? value : static_cast<Index>(rule);
  };
  Constants c;
  c.columns = or_rule(kColumnsOfLane, problem.n_cols <= kPlaces ? 1 : 2);
  c.chunk = or_rule(kChunkOfRow, std::clamp<Offset>(even, 128, kChunkOfRow.most));
  c.longest = or_rule(kLongestShort, std::min<Offset>(std::clamp<Offset>(mean, 1, kPlaces / 2),
                                                      kPlaces / or_rule(kRowsOfWarp, 1)));
  c.rows = or_rule(kRowsOfWarp, kPlaces / c.longest);
  return c;
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

STAGES_FOR_VALUES(constants_of)
STAGES_FOR_POINTERS(cut_tasks)

}  // namespace stages::spmm
