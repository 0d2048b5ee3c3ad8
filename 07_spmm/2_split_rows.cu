// SpMM, a warp per row, long rows cut into chunks.
//
// The idea: 1_warp_per_row.cu lasts as long as its longest row. So no warp gets more than `chunk` non-zeros: a
// longer row is cut into chunks, one warp each, which add to the row of C by atomicAdd. Prepare cuts the rows;
// the kernel is that of 1_warp_per_row.cu but for where it begins and ends, and how it stores.
//
// What it costs: C must hold zero (or beta C) before the first warp adds to it, and that is part of the
// product and of its time: published kernels often leave it out. Every element is read and written once more,
// by an atomic. And as the order in which warps arrive changes, so does the rounding: this entry does not
// claim to be reproducible. Where no row is longer than `chunk` it is a little slower than warp_per_row, with
// two columns a lane more (notes.md, "Rows of B under way").
//
// `chunk`: if it is small, there are many tasks and many atomics. If it is large, all wait for the longest
// chunk. The default is what each warp of the device would get if all got the same; see tasks.hpp.
//
// Input: any CSR matrix, any number of columns. Cost: as 1_warp_per_row.cu, one more pass over C to set it and
// one to add to it; 16 or 24 bytes a task.
//
// Source: step 2 of a course project on SpMM ("D3"); a script tuned `chunk` (TRUNCATED_STEP) for each matrix.

#include "07_spmm/tasks.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kWarps = 4;  ///< of a block

template <unsigned kPerLane, class T, class Ptr>
__global__ void __launch_bounds__(kWarps* kWarp)
    add_chunks(CsrView<T, Ptr> a, const Task<Ptr>* tasks, Offset task_count, SpmmArgs<T> m) {
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
    Ptr p = task.begin;
    while (p < task.end) {
      const auto count = static_cast<unsigned>(min(task.end - p, static_cast<Ptr>(kWarp)));
      __syncwarp();  // the 32 before these have been read by all
      if (lane < count) {
        staged_columns[warp][lane] = a.col_idx[p + static_cast<Ptr>(lane)];
        staged_values[warp][lane] = a.values[p + static_cast<Ptr>(lane)];
      }
      __syncwarp();
      for (unsigned k = 0; k < count; ++k) {
        const T value = staged_values[warp][k];
        const T* const from = m.b.row(staged_columns[warp][k]) + column;
#pragma unroll
        for (unsigned u = 0; u < kPerLane; ++u) {
          if (column + u * kWarp < m.n_cols) sums[u] += value * from[u * kWarp];
        }
      }
      p += static_cast<Ptr>(count);
    }
#pragma unroll
    for (unsigned u = 0; u < kPerLane; ++u) {
      if (column + u * kWarp < m.n_cols) atomicAdd(&m.c.row(task.row)[column + u * kWarp], m.alpha * sums[u]);
    }
  }
}

}  // namespace

void add_split_rows(Registry& registry) {
  add_tasked(registry,
             {.name = "07_spmm/split_rows",
              .idea = "long rows in chunks, a warp each, which add by atomics to a C that was set before",
              .previous = "warp_per_row",
              .claims = {.bitwise_reproducible = false},
              .parameters = {kChunkOfRow, kColumnsOfLane}},
             ShortRows::alone,
             []<class T, class Ptr>(const Tasked<T, Ptr>& matrix, const SpmmArgs<T>& product, Index per_lane,
                                    cudaStream_t stream) {
               const auto tasks = std::ssize(matrix.tasks);
               const unsigned strips = blocks_for(product.n_cols, Offset{per_lane} * kWarp);
               launch(per_lane == 1 ? add_chunks<1, T, Ptr> : add_chunks<2, T, Ptr>,
                      {.grid = {blocks_for(tasks, kWarps), std::min(strips, kMostStrips)},
                       .block = kWarps * kWarp,
                       .stream = stream},
                      matrix.a.view(), matrix.tasks.data(), tasks, product);
             });
}

}  // namespace stages::spmm
