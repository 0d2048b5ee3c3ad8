// SpMM by tensor cores, in small dense tiles, with the accuracy of floats.
//
// The idea: up to here each non-zero asks for a row of B. Where most elements of A are non-zeros, neighbouring
// rows of A ask for the same rows of B. A tile of 16 rows and 8 columns of A asks for 8 rows of B once, and a
// warp multiplies it with 8 x 8 elements of B by one instruction, on units that nothing has used so far: the
// tensor cores. The price: zeros in a tile are stored, and multiplied, too.
//
// So the columns are packed: of 16 rows only those columns are in tiles in which one of them has a non-zero
// (tiles.hpp). In a near-dense matrix most places are then in use. With 7 non-zeros a row most are zeros.
//
// Floats by TF32: a tensor core takes 11 significant bits of the 24 of a float. So each value is split in two:
// big is its nearest TF32 number, and small is what is left, of which the tensor core sees 11 bits more. Then
//   a b = small_a big_b + big_a small_b + big_a big_b + what is lost:
//         small_a small_b, up to 2^-22 of a b; the last bit of small_a and of small_b, up to 2^-23 each
// Three products (3xTF32) in place of one. With small integers nothing is lost.
//
// A block has 16 rows and 32 columns of C. Its warps take the tiles in turn, and their sums are added in a
// fixed order, so every run gives the same bits. Of 32 columns of B a lane takes four neighbours by one load:
// they belong to four products of tiles, whose columns are therefore 0, 4, 8, ...; 1, 5, 9, ...; and so on.
//
// Zeros that fill tiles are no non-zeros: times infinity or NaN in B they would make NaN in rows of C that
// have nothing to do with it. And the big part of a float close to the largest may be infinite. Both show in
// the sum. So a sum that is not finite is taken again, from the CSR. Values of less than 2^-114 may lose
// their small part.
//
// Input: float, and compute capability 8.0 or later; other problems are refused. Rows with fewer than 4
// non-zeros have their sums from the CSR, too, by a second kernel. Cost: 544 bytes a tile for 32 columns of C,
// 8 rows of B a tile, C once. Memory: the CSR, and 544 bytes a tile, at most 68 a non-zero.
//
// Source: the split is that of CUTLASS (example 27, "3xTF32"), and of H. Ootomo and R. Yokota ("Recovering
// single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance", IJHPCA
// 2022).

#include <limits>

#include "07_spmm/shares.hpp"
#include "07_spmm/stage.hpp"
#include "07_spmm/tiles.hpp"
#include "common/gpu/tensor.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kWarps = 8;           ///< of a block
constexpr unsigned kStrip = 32;          ///< columns of C that a block does at a time
constexpr unsigned kPitch = kStrip + 4;  ///< of sums in shared memory: so lanes do not meet in a bank
constexpr unsigned kMostBlocks = 65535;  ///< of a grid in y
constexpr float kLargest = std::numeric_limits<float>::max();

/// Columns from[0] .. from[3], as far as there are any.
template <unsigned kVector>
__device__ void load_four(const float* from, Offset there, float (&to)[4]) {
#pragma unroll
  for (unsigned v = 0; v < 4; v += kVector) {
    if (v < there) load_vector<kVector>(from + v, to + v);
  }
}

template <unsigned N>
__device__ void split(const float (&values)[N], float (&big)[N], float (&small)[N]) {
#pragma unroll
  for (unsigned i = 0; i < N; ++i) {
    big[i] = to_tf32(values[i]);
    small[i] = values[i] - big[i];
  }
}

template <class T>
__device__ T sum_from_csr(const CsrView<T>& a, const Rows<const T>& b, Index row, Offset column) {
  T sum = 0;
  for (Offset e = a.row_ptr[row]; e < a.row_ptr[row + 1]; ++e)
    sum += a.values[e] * b.row(a.col_idx[e])[column];
  return sum;
}

template <unsigned kVector>
__global__ void __launch_bounds__(kWarps* kWarp) multiply(TiledMatrix<float> a, Product<float> m) {
  __shared__ float parts[kWarps][kTileRows][kPitch];
  // g and k: which elements of a tile a lane has, see multiply_tiles() in common/gpu/tensor.hpp.
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, g = lane / 4, k = lane % 4;
  for (Offset strip = blockIdx.y * kStrip; strip < m.n_cols; strip += gridDim.y * kStrip) {
    const Offset column = strip + 4 * g;
    float sums[4][4] = {};
#pragma unroll 2
    for (Offset tile = a.first[blockIdx.x] + warp; tile < a.first[blockIdx.x + 1]; tile += kWarps) {
      const Index* const columns = a.columns + tile * kTileColumns;
      float a_values[4], a_big[4], a_small[4];
      load_vector<4>(a.values + (tile * kWarp + lane) * 4, a_values);
      float b[2][4] = {}, b_big[4][2], b_small[4][2];
      load_four<kVector>(m.b.row(columns[k]) + column, m.n_cols - column, b[0]);
      load_four<kVector>(m.b.row(columns[k + 4]) + column, m.n_cols - column, b[1]);
      split(a_values, a_big, a_small);
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) split({b[0][j], b[1][j]}, b_big[j], b_small[j]);
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) multiply_tiles(sums[j], a_small, b_big[j]);
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) multiply_tiles(sums[j], a_big, b_small[j]);
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) multiply_tiles(sums[j], a_big, b_big[j]);
    }
    // sums[j]: rows g and g + 8, columns 2k and 2k + 1 of product j (tensor.hpp). Its column c is 4c + j here.
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
      if (!(fabsf(sum[0]) <= kLargest)) sum[0] = sum_from_csr(a.csr, m.b, row, strip + lane);
      finish_row<1>(m, row, strip + lane, sum);
    }
    __syncthreads();  // before the sums of the next strip
  }
}

/// A warp for each short row, a lane a column.
template <class T>
__global__ void __launch_bounds__(kWarps* kWarp) multiply_short_rows(TiledMatrix<T> a, Product<T> m) {
  const Offset number = Offset{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (number >= a.n_short) return;
  for (Offset strip = blockIdx.y * kWarp; strip < m.n_cols; strip += gridDim.y * kWarp) {
    const Offset column = strip + threadIdx.x % kWarp;
    if (column >= m.n_cols) return;
    const T sum[1] = {sum_from_csr(a.csr, m.b, a.short_rows[number], column)};
    finish_row<1>(m, a.short_rows[number], column, sum);
  }
}

template <class T>
class TensorTiles final : public RowMajorPlan<T> {
 public:
  TensorTiles(const SpmmProblem<T>& problem, Exec& exec)
      : RowMajorPlan<T>(problem, exec), tiles_(*problem.a) {}

  static Cost cost(const SpmmProblem<T>& problem) {
    Cost cost = RowMajorPlan<T>::cost(problem);
    const double tiles = most_tiles(*problem.a), tile_size = kTileRows * kTileColumns;
    // Three products of each tile, in steps of the executor:
    cost.work =
        3 * tiles * problem.n_cols * (kWarp / 8.0);  // of a warp's instruction for 8 columns, a step a lane
    cost.memory += tiles * (tile_size * sizeof(T) + kTileColumns * sizeof(Index)) + 16.0 * problem.a->rows;
    return cost;
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

  std::vector<Metric> metrics() const override {
    const TiledMatrix<T> a = tiles_.view();
    return {{"tiles", static_cast<double>(a.tiles), ""},
            {"rows_not_tiled", static_cast<double>(a.n_short), ""}};
  }

 private:
  void multiply(const Product<T>& product) override {
    const TiledMatrix<T> a = tiles_.view();
    const unsigned strips = std::min(kMostBlocks, blocks_for(product.n_cols, kStrip));
    if constexpr (std::is_same_v<T, float>) {
      launch(rows_are_aligned<T>(product.b.ld) ? spmm::multiply<4> : spmm::multiply<1>,
             {.grid = {blocks_for(a.bands, 1), strips}, .block = kWarps * kWarp, .stream = this->stream()}, a,
             product);
    }
    launch(
        multiply_short_rows<T>,
        {.grid = {blocks_for(a.n_short, kWarps), strips}, .block = kWarps * kWarp, .stream = this->stream()},
        a, product);
  }

  DeviceTiles<T> tiles_;
};

}  // namespace

void add_tensor_tiles(Registry& registry, const std::string& name) {
  registry.add<TensorTiles>(
      {.name = name,
       .idea = "tiles of 16 x 8 on tensor cores; floats in two TF32 parts, three products",
       .needs = {.gpu = true}});
}

}  // namespace stages::spmm
