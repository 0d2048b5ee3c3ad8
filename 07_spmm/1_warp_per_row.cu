// SpMM, a warp per row of C.
//
// The idea: row i of C is the sum of A(i, k) B(k, :) over the row's non-zeros. A row of B is one piece of
// memory, so a warp takes it together: each lane one column (or two), its sum in a register until the row is
// done. All lanes need every non-zero of A; so the warp fetches 32 at once, a lane each, puts them into shared
// memory, and then goes through them. Shared memory answers all lanes that ask for the same word at once.
//
// With more than 32 columns a lane takes two, 32 apart: the warp does a strip of 64, and A is read half as
// often. Every strip of a row is a warp of its own: strips are the grid's second dimension. (The loop over
// strips in the kernel makes one turn, unless there are more than the 65,535 that a grid may have.) The
// compiler decides how many rows of B a warp has under way: with a column a lane one or two, with two columns
// four (notes.md, "Rows of B under way"). That is why a long row can take longer with fewer columns.
//
// Input: any CSR matrix, any number of columns. Cost: nnz x n_cols multiplications; per strip all of A and a
// row of B for each non-zero. What it suffers from: a warp with a row of 100,000 non-zeros works on when all
// others have finished, and in one with three 29 lanes have nothing to fetch.
//
// Parameter: `columns` of a lane, 1 or 2. Source: step 1 of a course project on SpMM ("D3"): a warp takes 64
// columns for N = 256 (K_256_STEP = 2).

#include "07_spmm/tasks.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kWarps = 4;  ///< of a block

template <unsigned kPerLane, class T, class Ptr>
__global__ void __launch_bounds__(kWarps* kWarp) multiply(CsrView<T, Ptr> a, SpmmArgs<T> m) {
  __shared__ Index staged_columns[kWarps][kWarp];
  __shared__ T staged_values[kWarps][kWarp];
  constexpr Offset kStrip = kPerLane * kWarp;
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const Offset number = Offset{blockIdx.x} * kWarps + warp;
  if (number >= a.rows) return;  // the whole warp leaves
  const auto row = static_cast<Index>(number);
  for (Offset strip = blockIdx.y * kStrip; strip < m.n_cols; strip += gridDim.y * kStrip) {
    const Offset column = strip + lane;
    T sums[kPerLane] = {};
    const Ptr end = a.row_ptr[row + 1];
    Ptr p = a.row_ptr[row];
    while (p < end) {
      const auto count = static_cast<unsigned>(min(end - p, static_cast<Ptr>(kWarp)));
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
      if (column + u * kWarp >= m.n_cols) continue;
      T& element = m.c.row(row)[column + u * kWarp];
      element = m.beta == T{0} ? m.alpha * sums[u] : m.alpha * sums[u] + m.beta * element;
    }
  }
}

template <class T>
class WarpPerRow final : public RowMajorPlan<T> {
 public:
  WarpPerRow(const SpmmProblem<T>& problem, Exec& exec, const ParameterValues& values)
      : RowMajorPlan<T>(problem, exec),
        per_lane_(constants_of(problem, values).columns),
        matrix_(to_device(*problem.a)) {}

  std::vector<Metric> metrics() const override { return {{"columns", static_cast<double>(per_lane_), ""}}; }

 protected:
  void multiply(const SpmmArgs<T>& product) override {
    std::visit([&](const auto& a) { multiply_with(a.view(), product); }, matrix_);
  }

 private:
  template <class Ptr>
  void multiply_with(const CsrView<T, Ptr>& a, const SpmmArgs<T>& product) {
    const unsigned strips = blocks_for(product.n_cols, Offset{per_lane_} * kWarp);
    launch(per_lane_ == 1 ? spmm::multiply<1, T, Ptr> : spmm::multiply<2, T, Ptr>,
           {.grid = {blocks_for(a.rows, kWarps), std::min(strips, kMostStrips)},
            .block = kWarps * kWarp,
            .stream = this->stream()},
           a, product);
  }

  Index per_lane_;
  AnyDeviceCsr<T> matrix_;
};

}  // namespace

void add_warp_per_row(Registry& registry) {
  registry.add<WarpPerRow>(
      {.name = "07_spmm/warp_per_row",
       .idea = "a warp per row of C, each lane a column; 32 non-zeros at a time in shared memory",
       .previous = "thread_per_row",
       .parameters = {kColumnsOfLane}});
}

}  // namespace stages::spmm
