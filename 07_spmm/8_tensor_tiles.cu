// SpMM by tensor cores, in small dense tiles, with the accuracy of floats.
//
// The idea: up to here each non-zero asks for a row of B. Where most elements of A are non-zeros, neighbouring
// rows of A ask for the same rows of B. A tile of 16 rows and 8 columns of A asks for 8 rows of B once, and a
// warp multiplies it with 8 x 8 elements of B by one instruction, on the tensor cores. The price: zeros in a
// tile are stored, and multiplied, too. So the columns are packed: of 16 rows only those columns are in tiles
// in which one of them has a non-zero (tiles.hpp). With 7 non-zeros a row most places are still zeros.
//
// Floats by TF32: a tensor core takes 11 significant bits of the 24 of a float. So each value is split in two:
// big is its nearest TF32 number, and small is what is left, of which the tensor core sees 11 bits more. Then
//   a b = small_a big_b + big_a small_b + big_a big_b + what is lost:
//         small_a small_b, up to 2^-22 of a b; the last bit of small_a and of small_b, up to 2^-23 each
// Three products (3xTF32) in place of one: add_three_products() in tile_plan.hpp. With small integers nothing
// is lost.
//
// A block has 16 rows and 32 columns of C. Its warps take the tiles in turn, and finish_band() adds their sums
// in a fixed order: the same bits in every run. Of 32 columns of B a lane takes four neighbours by one load.
// They belong to four products of tiles, whose columns are therefore 0, 4, 8, ...; 1, 5, 9, ...; and so on.
//
// Zeros that fill tiles are no non-zeros: times infinity or NaN in B they would make NaN in rows of C that
// have nothing to do with it. And the big part of a float close to the largest may be infinite. Both show in
// the sum: one that is not finite is taken again, from the CSR. Values of less than 2^-114 may lose their
// small part.
//
// Input: float, and compute capability 8.0 or later; other problems are refused. Rows with fewer than 4
// non-zeros have their sums from the CSR, by a second kernel: three products may lose more than the check
// grants so short a row (tiles.hpp). Cost: 544 bytes a tile for 32 columns of C, 8 rows of B a tile, C once.
// Memory: the CSR, and 544 bytes a tile: 68 a non-zero where each column of a tile has one (136 at most, where
// a band's last tile is not full).
//
// Source: the split is that of CUTLASS (example 27, "3xTF32"), and of H. Ootomo and R. Yokota ("Recovering
// single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance", IJHPCA
// 2022).

#include "07_spmm/tile_plan.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kWarps = 8;  ///< of a block

template <unsigned kVector>
__global__ void __launch_bounds__(kWarps* kLanesOfTile) multiply(TiledMatrix<float> a, SpmmArgs<float> m) {
  // g and k: which elements of a tile a lane has, see multiply_tiles() in common/gpu/tensor.hpp.
  const unsigned warp = threadIdx.x / kLanesOfTile, lane = threadIdx.x % kLanesOfTile;
  const unsigned g = lane / 4, k = lane % 4;
  for (Offset strip = blockIdx.y * kTileStrip; strip < m.n_cols; strip += gridDim.y * kTileStrip) {
    const Offset column = strip + 4 * g;
    float sums[4][4] = {};
#pragma unroll 2
    for (Offset tile = a.first[blockIdx.x] + warp; tile < a.first[blockIdx.x + 1]; tile += kWarps) {
      const Index* const columns = a.columns + tile * kTileColumns;
      float a_values[4], b[2][4] = {};
      load_vector<4>(a.values + (tile * kLanesOfTile + lane) * 4, a_values);
      load_four<kVector>(m.b.row(columns[k]) + column, m.n_cols - column, b[0]);
      load_four<kVector>(m.b.row(columns[k + 4]) + column, m.n_cols - column, b[1]);
      add_three_products(sums, a_values, b);
    }
    finish_band<kWarps>(a, m, strip, sums);
  }
}

template <class T>
class TensorTiles final : public TilePlan<T> {
 public:
  using TilePlan<T>::TilePlan;

 private:
  void multiply_bands(const TiledMatrix<T>& a, const SpmmArgs<T>& product, const dim3& blocks) override {
    if constexpr (std::is_same_v<T, float>) {
      launch(rows_are_aligned<T>(product.b.ld) ? spmm::multiply<4> : spmm::multiply<1>,
             {.grid = blocks, .block = kWarps * kLanesOfTile, .stream = this->stream()}, a, product);
    }
  }
};

}  // namespace

void add_tensor_tiles(Registry& registry, const std::string& name) {
  registry.add<TensorTiles>(
      {.name = name,
       .idea = "tiles of 16 x 8 on tensor cores; floats in two TF32 parts, three products",
       .previous = "strips"});
}

}  // namespace stages::spmm
