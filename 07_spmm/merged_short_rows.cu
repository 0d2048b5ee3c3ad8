// SpMM, long rows cut into chunks, short rows merged.
//
// The idea: most graphs consist of short rows. A warp that is given a row of three non-zeros fetches them
// with 3 of its 32 lanes, waits, multiplies three times and is gone. So up to `merged_rows` neighbouring
// short rows become one task: their non-zeros lie side by side, and the warp fetches those of all its rows at
// once, as if they were one row. It only has to notice where a row ends: there it adds its sums to C and
// begins again.
//
// A row counts as short up to `short_row` non-zeros. The defaults are the mean row length, and as many such
// rows as the 32 places of one staging hold; see tasks.hpp. Long rows are cut as in split_rows.cu.
//
// What remains: both numbers are the same for the whole matrix, while rows are not the same in all its parts
// (in one of the graphs of the original report most rows near 80,000 hold 3 non-zeros and those near 800,000
// hold 10 to 15). balanced.cu does away with them.
//
// Input: any CSR matrix, any number of columns. Cost: as split_rows.cu, with fewer tasks.
//
// Source: step 3 of a course project on SpMM ("D3"), where a script tuned the two numbers (combined_size,
// max_element_per_line) for each matrix: 15 and 3 on `am`. Sorting the rows first gained nothing there.

#include "07_spmm/tasks.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kWarps = 4;           ///< of a block
constexpr unsigned kMostBlocks = 65535;  ///< of a grid in y

/// C(row, column), C(row, column + 32) += alpha sums.
template <unsigned kPerLane, class T>
__device__ void add_to_row(const Product<T>& m, Index row, Offset column, const T (&sums)[kPerLane]) {
#pragma unroll
  for (unsigned u = 0; u < kPerLane; ++u) {
    if (column + u * kWarp < m.n_cols) atomicAdd(&m.c.row(row)[column + u * kWarp], m.alpha * sums[u]);
  }
}

template <unsigned kPerLane, class T, class Ptr>
__global__ void __launch_bounds__(kWarps* kWarp)
    add_merged(CsrView<T, Ptr> a, const Task<Ptr>* tasks, Offset task_count, Product<T> m) {
  __shared__ Index staged_columns[kWarps][kWarp];
  __shared__ T staged_values[kWarps][kWarp];
  constexpr Offset kStrip = kPerLane * kWarp;
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const Offset number = Offset{blockIdx.x} * kWarps + warp;
  if (number >= task_count) return;  // the whole warp leaves
  const Task<Ptr> task = tasks[number];
  for (Offset strip = blockIdx.y * kStrip; strip < m.n_cols; strip += gridDim.y * kStrip) {
    const Offset column = strip + lane;
    T sums[kPerLane] = {};
    Index row = task.row;
    Ptr row_end = task.rows == 1 ? task.end : a.row_ptr[row + 1];
    Ptr p = task.begin;
    while (p == row_end && p < task.end) row_end = a.row_ptr[++row + 1];  // empty rows
    while (p < task.end) {
      const auto count = static_cast<unsigned>(min(task.end - p, static_cast<Ptr>(kWarp)));
      __syncwarp();  // the 32 before these have been read by all
      if (lane < count) {
        staged_columns[warp][lane] = a.col_idx[p + static_cast<Ptr>(lane)];
        staged_values[warp][lane] = a.values[p + static_cast<Ptr>(lane)];
      }
      __syncwarp();
      for (unsigned k = 0; k < count; ++k, ++p) {
        if (p == row_end) {
          add_to_row(m, row, column, sums);
#pragma unroll
          for (unsigned u = 0; u < kPerLane; ++u) sums[u] = T{0};
          while (p == row_end) row_end = a.row_ptr[++row + 1];
        }
        const T value = staged_values[warp][k];
        const T* const from = m.b.row(staged_columns[warp][k]) + column;
#pragma unroll
        for (unsigned u = 0; u < kPerLane; ++u) {
          if (column + u * kWarp < m.n_cols) sums[u] += value * from[u * kWarp];
        }
      }
    }
    if (task.begin < task.end) add_to_row(m, row, column, sums);
  }
}

template <class T>
class MergedShortRows final : public TaskPlan<T> {
 public:
  MergedShortRows(const SpmmProblem<T>& problem, Exec& exec, Constants constants)
      : TaskPlan<T>(problem, exec, default_constants(problem, constants)) {}

 private:
  void add_tasks(const Tasked<T, std::int32_t>& matrix, const Product<T>& product) override {
    add(matrix, product);
  }
  void add_tasks(const Tasked<T, Offset>& matrix, const Product<T>& product) override {
    add(matrix, product);
  }

  template <class Ptr>
  void add(const Tasked<T, Ptr>& matrix, const Product<T>& product) {
    const auto tasks = std::ssize(matrix.tasks);
    const Index per_lane = this->constants().per_lane;
    const unsigned strips = blocks_for(product.n_cols, Offset{per_lane} * kWarp);
    launch(per_lane == 1 ? add_merged<1, T, Ptr> : add_merged<2, T, Ptr>,
           {.grid = {blocks_for(tasks, kWarps), std::min(strips, kMostBlocks)},
            .block = kWarps * kWarp,
            .stream = this->stream()},
           matrix.a.view(), matrix.tasks.data(), tasks, product);
  }
};

}  // namespace

void add_merged_short_rows(Registry& registry, const std::string& name, Constants constants) {
  registry.add<MergedShortRows>(
      {.name = name,
       .idea = "up to merged_rows neighbouring short rows share a warp; long rows in chunks",
       .claims = {.bitwise_reproducible = false},
       .needs = {.gpu = true}},
      constants);
}

}  // namespace stages::spmm
