#pragma once
// What dense_tiles (dense_tiles.cu) has around its kernel: floats as two TF32 parts, the sums of a block, rows
// that are no tile's, and the plan.

#include <limits>

#include "07_spmm/fast/tiles.hpp"
#include "07_spmm/fast/vectors.hpp"
#include "07_spmm/stage.hpp"
#include "common/gpu/tensor.hpp"

namespace stages::spmm {

inline constexpr unsigned kTileStrip = 32;        ///< columns of C that a block does at a time
inline constexpr unsigned kLanesOfTile = 32;      ///< a warp
inline constexpr unsigned kShortRowsOfBlock = 8;  ///< a warp each
/// Of sums in shared memory: each row begins at 16 bytes, so that four stores of a lane can be one, in which no
/// lanes meet in a bank.
inline constexpr unsigned kTilePitch = kTileStrip + 4;

/// Columns from[0] .. from[3]; `there`: how many there are, which may be none. By vectors all four if the first
/// exists: what lies behind is padding of the row, and reaches only columns of C that nobody stores.
template <unsigned kVector>
__device__ void load_four(const float* from, Offset there, float (&to)[4]) {
#pragma unroll
  for (unsigned v = 0; v < 4; v += kVector) {
    if (v < there) load_vector<kVector>(from + v, to + v);
  }
}

/// The nearest TF32 numbers, and what is left of the values.
template <unsigned N>
__device__ void split(const float (&values)[N], float (&big)[N], float (&small)[N]) {
#pragma unroll
  for (unsigned i = 0; i < N; ++i) {
    big[i] = to_tf32(values[i]);
    small[i] = values[i] - big[i];
  }
}

/// sums[j] += a tile of A by the 8 x 8 elements of B that a lane brings of product j: rows k and k + 4 of
/// column g, in b[0][j] and b[1][j] (multiply_tiles() in common/gpu/tensor.hpp says what g and k are).
__device__ inline void add_three_products(float (&sums)[4][4], const float (&a)[4], const float (&b)[2][4]) {
  float a_big[4], a_small[4], b_big[4][2], b_small[4][2];
  split(a, a_big, a_small);
#pragma unroll
  for (unsigned j = 0; j < 4; ++j) split({b[0][j], b[1][j]}, b_big[j], b_small[j]);
#pragma unroll
  for (unsigned j = 0; j < 4; ++j) multiply_tiles(sums[j], a_small, b_big[j]);
#pragma unroll
  for (unsigned j = 0; j < 4; ++j) multiply_tiles(sums[j], a_big, b_small[j]);
#pragma unroll
  for (unsigned j = 0; j < 4; ++j) multiply_tiles(sums[j], a_big, b_big[j]);
}

template <class T>
__device__ T sum_from_csr(const CsrView<T>& a, const RowMajor<const T>& b, Index row, Offset column) {
  T sum = 0;
  for (Offset e = a.row_ptr[row]; e < a.row_ptr[row + 1]; ++e)
    sum += a.values[e] * b.row(a.col_idx[e])[column];
  return sum;
}

/// The rows of the block's band, in the strip from column `strip` on: its warps' sums are added in their order.
/// sums[j]: rows g and g + 8, columns 2k and 2k + 1 of product j (tensor.hpp), whose column c is 4c + j here.
template <unsigned kWarps>
__device__ void finish_band(const TiledMatrix<float>& a, const SpmmArgs<float>& m, Offset strip,
                            const float (&sums)[4][4]) {
  __shared__ float parts[kWarps][kTileRows][kTilePitch];
  constexpr float kLargest = std::numeric_limits<float>::max();
  const unsigned warp = threadIdx.x / kLanesOfTile, lane = threadIdx.x % kLanesOfTile;
  const unsigned g = lane / 4, k = lane % 4;
#pragma unroll
  for (unsigned j = 0; j < 4; ++j) {
    parts[warp][g][8 * k + j] = sums[j][0];
    parts[warp][g][8 * k + 4 + j] = sums[j][1];
    parts[warp][g + 8][8 * k + j] = sums[j][2];
    parts[warp][g + 8][8 * k + 4 + j] = sums[j][3];
  }
  __syncthreads();
  for (unsigned r = warp; r < kTileRows; r += kWarps) {
    const Index row = a.rows[Offset{blockIdx.x} * kTileRows + r];
    if (row < 0 || strip + lane >= m.n_cols) continue;
    float sum[1] = {};
    for (unsigned w = 0; w < kWarps; ++w) sum[0] += parts[w][r][lane];
    // Infinite, or no number: again from the CSR (dense_tiles.cu).
    if (!(fabsf(sum[0]) <= kLargest)) sum[0] = sum_from_csr(a.csr, m.b, row, strip + lane);
    finish_row<1>(m, row, strip + lane, sum);
  }
  __syncthreads();  // before the sums of the next strip
}

/// A warp for each short row, a lane a column.
template <class T>
__global__ void __launch_bounds__(kShortRowsOfBlock* kLanesOfTile)
    multiply_short_rows(TiledMatrix<T> a, SpmmArgs<T> m) {
  const Offset number = Offset{blockIdx.x} * kShortRowsOfBlock + threadIdx.x / kLanesOfTile;
  if (number >= a.n_short) return;
  for (Offset strip = blockIdx.y * kTileStrip; strip < m.n_cols; strip += gridDim.y * kTileStrip) {
    const Offset column = strip + threadIdx.x % kLanesOfTile;
    if (column >= m.n_cols) return;
    const T sum[1] = {sum_from_csr(a.csr, m.b, a.short_rows[number], column)};
    finish_row<1>(m, a.short_rows[number], column, sum);
  }
}

/// The base of the entries that multiply tiles. A derived class gives multiply_bands().
template <class T>
class TilePlan : public RowMajorPlan<T> {
 public:
  TilePlan(const SpmmProblem<T>& problem, Exec& exec) : RowMajorPlan<T>(problem, exec), tiles_(*problem.a) {}

  static Cost cost(const SpmmProblem<T>& problem) {
    const double tiles = most_tiles(*problem.a), tile_size = kTileRows * kTileColumns;
    // Three products of each tile, in steps of the executor: of an instruction for 8 columns, a step a lane.
    return RowMajorPlan<T>::cost(problem)
        .with_work(3 * tiles * problem.n_cols * (kLanesOfTile / 8.0))
        .plus_memory(tiles * (tile_size * sizeof(T) + kTileColumns * sizeof(Index)) + 16.0 * problem.a->rows);
  }

  static std::optional<std::string> refuse(const SpmmProblem<T>& problem, Exec& exec) {
    if (sizeof(T) > sizeof(float))
      return fmt::format("takes values of 32 bits, which TF32 splits; these have {}", 8 * sizeof(T));
    if (!has_tf32()) {
      return fmt::format("needs compute capability 8.0 for TF32; the code here is for {}.{}",
                         code_capability() / 10, code_capability() % 10);
    }
    return RowMajorPlan<T>::refuse(problem, exec);
  }

 protected:
  /// The bands, a block of each strip of columns for each.
  virtual void multiply_bands(const TiledMatrix<T>& a, const SpmmArgs<T>& product, const dim3& blocks) = 0;

 private:
  void multiply(const SpmmArgs<T>& product) final {
    const TiledMatrix<T> a = tiles_.view();
    const unsigned strips = std::min(kMostStrips, blocks_for(product.n_cols, kTileStrip));
    multiply_bands(a, product, {blocks_for(a.bands, 1), strips});
    launch(multiply_short_rows<T>,
           {.grid = {blocks_for(a.n_short, kShortRowsOfBlock), strips},
            .block = kShortRowsOfBlock * kLanesOfTile,
            .stream = this->stream()},
           a, product);
  }

  DeviceTiles<T> tiles_;
};

}  // namespace stages::spmm
