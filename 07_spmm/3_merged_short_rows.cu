// SpMM, long rows cut into chunks, short rows merged.
//
// The idea: a warp that is given a row of three non-zeros fetches them with 3 of its 32 lanes, waits,
// multiplies three times and is gone. So up to `rows` neighbouring short rows become one task: the warp
// fetches their non-zeros as if they were one row. Where a row ends it adds its sums to C and begins again. It
// asks once for the ends of its rows, a lane a row, and marks them in shared memory; a ballot then tells all
// lanes which of the 32 places are ends.
//
// So two things are new, not one: in a merged task rows of B are asked for four at a time, whatever rows of A
// they are for. A task of one row has the loop of 2_split_rows.cu. But nvcc makes another loop of it here, and
// the kernel needs more registers (notes.md, "Rows of B under way"): times differ also where tasks do not.
//
// A row counts as short up to `longest` non-zeros. The defaults are the mean row length, from 1 to 16, and as
// many such rows as the 32 places of one staging hold; see tasks.hpp.
//
// What remains: both numbers are the same for the whole matrix, while rows are not the same in all its parts
// (in one of the graphs of the original report most rows near 80,000 hold 3 non-zeros and those near 800,000
// hold 10 to 15). 4_equal_shares.cu does away with them, and with the atomics.
//
// Input: any CSR matrix, any number of columns. Cost: as 2_split_rows.cu, with fewer tasks.
//
// merged_after_sorting does the same with the rows sorted by length in prepare, the longest first, so that
// short ones have short neighbours. A sorted row has the number of its row of C beside it.
//
// Source: step 3 of a course project on SpMM ("D3"), where a script tuned the two numbers (combined_size,
// max_element_per_line) for each matrix: 15 and 3 on `am`. Sorting the rows first gained nothing there.

#include "07_spmm/tasks.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kWarps = 4;   ///< of a block
constexpr unsigned kAtOnce = 4;  ///< rows of B that a merged task asks for before it adds the first

/// C(row, column), C(row, column + 32) += alpha sums.
template <unsigned kPerLane, class T>
__device__ void add_to_row(const SpmmArgs<T>& m, Index row, Offset column, const T (&sums)[kPerLane]) {
#pragma unroll
  for (unsigned u = 0; u < kPerLane; ++u) {
    if (column + u * kWarp < m.n_cols) atomicAdd(&m.c.row(row)[column + u * kWarp], m.alpha * sums[u]);
  }
}

/// Of C, where the rows of A lie in the order of those of C.
struct SameRow {
  __device__ Index operator()(Index row) const { return row; }
};
struct SortedRow {
  const Index* order;
  __device__ Index operator()(Index row) const { return order[row]; }
};

template <unsigned kPerLane, class T, class Ptr, class RowOfC>
__global__ void __launch_bounds__(kWarps* kWarp)
    add_merged(CsrView<T, Ptr> a, const Task<Ptr>* tasks, Offset task_count, SpmmArgs<T> m, RowOfC row_of_c) {
  __shared__ Index staged_columns[kWarps][kWarp];
  __shared__ T staged_values[kWarps][kWarp];
  __shared__ Index ending_row[kWarps][kWarp];  ///< the row that ends with this non-zero; -1: none does
  constexpr Offset kStrip = kPerLane * kWarp;
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const Offset number = Offset{blockIdx.x} * kWarps + warp;
  if (number >= task_count) return;  // the whole warp leaves
  const Task<Ptr> task = tasks[number];
  unsigned ends = 0;  ///< a bit for each non-zero of a merged task: its row ends there
  if (task.rows > 1) {
    ending_row[warp][lane] = -1;
    __syncwarp();
    if (static_cast<Index>(lane) < task.rows) {
      const Index row = task.row + static_cast<Index>(lane);
      const Ptr end = a.row_ptr[row + 1];
      if (end > a.row_ptr[row]) ending_row[warp][end - task.begin - 1] = row_of_c(row);
    }
    __syncwarp();
    ends = __ballot_sync(kAllLanes, ending_row[warp][lane] >= 0);
  }
  for (Offset strip = blockIdx.y * kStrip; strip < m.n_cols; strip += gridDim.y * kStrip) {
    const Offset column = strip + lane;
    T sums[kPerLane] = {};
    Ptr p = task.begin;
    while (p < task.end) {
      const auto count = static_cast<unsigned>(min(task.end - p, static_cast<Ptr>(kWarp)));
      __syncwarp();  // the 32 before these have been read by all
      if (lane < count) {
        staged_columns[warp][lane] = a.col_idx[p + static_cast<Ptr>(lane)];
        staged_values[warp][lane] = a.values[p + static_cast<Ptr>(lane)];
      }
      __syncwarp();
      if (ends == 0) {  // one row, or a part of one: as in 2_split_rows.cu
        for (unsigned k = 0; k < count; ++k) {
          const T value = staged_values[warp][k];
          const T* const from = m.b.row(staged_columns[warp][k]) + column;
#pragma unroll
          for (unsigned u = 0; u < kPerLane; ++u) {
            if (column + u * kWarp < m.n_cols) sums[u] += value * from[u * kWarp];
          }
        }
      } else {
        for (unsigned first = 0; first < count; first += kAtOnce) {
          T b[kAtOnce][kPerLane] = {};
#pragma unroll
          for (unsigned k = 0; k < kAtOnce; ++k) {
            if (first + k >= count) break;
            const T* const from = m.b.row(staged_columns[warp][first + k]) + column;
#pragma unroll
            for (unsigned u = 0; u < kPerLane; ++u) {
              if (column + u * kWarp < m.n_cols) b[k][u] = from[u * kWarp];
            }
          }
#pragma unroll
          for (unsigned k = 0; k < kAtOnce; ++k) {
            if (first + k >= count) break;
#pragma unroll
            for (unsigned u = 0; u < kPerLane; ++u) sums[u] += staged_values[warp][first + k] * b[k][u];
            if ((ends >> (first + k) & 1) == 0) continue;
            add_to_row(m, ending_row[warp][first + k], column, sums);
#pragma unroll
            for (unsigned u = 0; u < kPerLane; ++u) sums[u] = T{0};
          }
        }
      }
      p += static_cast<Ptr>(count);
    }
    if (ends == 0 && task.begin < task.end) add_to_row(m, row_of_c(task.row), column, sums);
  }
}

struct AddMerged {
  template <class T, class Ptr>
  void operator()(const Tasked<T, Ptr>& matrix, const SpmmArgs<T>& product, Index per_lane,
                  cudaStream_t stream) const {
    if (matrix.order.empty()) return add(matrix, product, per_lane, stream, SameRow{});
    add(matrix, product, per_lane, stream, SortedRow{matrix.order.data()});
  }
  template <class T, class Ptr, class RowOfC>
  static void add(const Tasked<T, Ptr>& matrix, const SpmmArgs<T>& product, Index per_lane,
                  cudaStream_t stream, RowOfC row_of_c) {
    const auto tasks = std::ssize(matrix.tasks);
    const unsigned strips = blocks_for(product.n_cols, Offset{per_lane} * kWarp);
    launch(per_lane == 1 ? add_merged<1, T, Ptr, RowOfC> : add_merged<2, T, Ptr, RowOfC>,
           {.grid = {blocks_for(tasks, kWarps), std::min(strips, kMostStrips)},
            .block = kWarps * kWarp,
            .stream = stream},
           matrix.a.view(), matrix.tasks.data(), tasks, product, row_of_c);
  }
};

void add_entry(Registry& registry, const char* name, const char* idea, const char* previous,
               ShortRows short_rows) {
  add_tasked(registry,
             {.name = name,
              .idea = idea,
              .previous = previous,
              .claims = {.bitwise_reproducible = false},
              .parameters = {kRowsOfWarp, kLongestShort, kChunkOfRow, kColumnsOfLane}},
             short_rows, AddMerged());
}

}  // namespace

void add_merged_short_rows(Registry& registry) {
  add_entry(registry, "07_spmm/merged_short_rows",
            "up to `rows` neighbouring short rows share a warp; long rows in chunks", "split_rows",
            ShortRows::merged);
}

void add_merged_after_sorting(Registry& registry) {
  add_entry(registry, "07_spmm/merged_after_sorting",
            "merged_short_rows, after prepare has sorted the rows of A by length", "merged_short_rows",
            ShortRows::sorted);
}

}  // namespace stages::spmm
