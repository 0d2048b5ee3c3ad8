// SpMM, a warp per row, long rows cut into chunks.
//
// The idea: 1_warp_per_row.cu lasts as long as its longest row. So no warp gets more than `chunk`
// non-zeros: a longer row is cut into chunks, a warp each, which add to the row of C by atomicAdd. Prepare
// makes the list.
//
// What it costs: C must hold zero (or beta C) before the first warp adds to it. That is part of the product
// and of its time; published kernels often leave it out. And warps arrive in another order in each run, so
// the rounding differs: this entry does not claim to be reproducible.
//
// With a small `chunk` there are many atomics, with a large one all wait for the longest chunk. By default
// it is what each warp would get if all that the device has room for got the same.
//
// Input: any CSR matrix, any number of columns. Cost: as 1_warp_per_row.cu, one more pass over C to set it,
// and one to add to it; 24 bytes a task.
//
// Source: step 2 of a course project on SpMM ("D3"); a script tuned `chunk` (TRUNCATED_STEP) for each
// matrix.

#include "07_spmm/shares.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kBlock = 128;

/// Non-zeros [begin, end) of a row.
struct Task {
  Offset begin = 0, end = 0;
  Index row = 0;
};

template <class T, class Ptr>
__global__ void add_chunks(CsrView<T, Ptr> a, const Task* tasks, Offset n_tasks, SpmmArgs<T> m) {
  const Offset number = (Offset{blockIdx.x} * kBlock + threadIdx.x) / kWarp;
  if (number >= n_tasks) return;
  const Task task = tasks[number];
  for (Index column = threadIdx.x % kWarp; column < m.n_cols; column += kWarp) {
    T sum = 0;
    for (Offset p = task.begin; p < task.end; ++p) {
      const T value = a.values[p];
      const T* const from = m.b.row(a.col_idx[p]);
      sum += value * from[column];
    }
    atomicAdd(&m.c.row(task.row)[column], m.alpha * sum);
  }
}

template <class T>
std::vector<Task> cut_rows(const Csr<T>& a, Offset chunk) {
  std::vector<Task> tasks;
  for (Index row = 0; row < a.rows; ++row) {
    const Offset begin = a.row_ptr[static_cast<std::size_t>(row)], end = begin + a.row_nnz(row);
    for (Offset p = begin; p < end; p += chunk) tasks.push_back({p, std::min(p + chunk, end), row});
  }
  return tasks;
}

template <class T>
class SplitRows final : public RowMajorPlan<T> {
 public:
  SplitRows(const SpmmProblem<T>& problem, Exec& exec, const ParameterValues& values)
      : RowMajorPlan<T>(problem, exec),
        chunk_(chunk_of(problem, values)),
        matrix_(to_device(*problem.a)),
        tasks_(std::span<const Task>(cut_rows(*problem.a, chunk_))) {}

  static Cost cost(const SpmmProblem<T>& problem, const ParameterValues& values) {
    const double nnz = static_cast<double>(problem.a->nnz()), chunk = chosen_or(values, kChunk, 128);
    return RowMajorPlan<T>::cost(problem).plus_memory(sizeof(Task) * (problem.a->rows + nnz / chunk));
  }
  std::vector<Metric> metrics() const override {
    return {{"tasks", static_cast<double>(tasks_.size()), ""}, {"chunk", static_cast<double>(chunk_), ""}};
  }

 protected:
  void multiply(const SpmmArgs<T>& product) override {
    scale_c(product, this->a().rows, this->stream());
    const auto n_tasks = std::ssize(tasks_);
    std::visit(
        [&]<class Ptr>(const DeviceCsr<T, Ptr>& a) {
          launch(add_chunks<T, Ptr>,
                 {.grid = blocks_for(n_tasks, kBlock / kWarp), .block = kBlock, .stream = this->stream()},
                 a.view(), tasks_.data(), n_tasks, product);
        },
        matrix_);
  }

 private:
  Index chunk_;
  AnyDeviceCsr<T> matrix_;
  DeviceArray<Task> tasks_;
};

}  // namespace

void add_split_rows(Registry& registry) {
  registry.add<SplitRows>(
      {.name = "07_spmm/split_rows",
       .idea = "long rows in chunks, a warp each, which add by atomics to a C that was set before",
       .previous = "warp_per_row",
       .claims = {.bitwise_reproducible = false},
       .parameters = {kChunk}});
}

}  // namespace stages::spmm
