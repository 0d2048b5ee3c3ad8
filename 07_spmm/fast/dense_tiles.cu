// SpMM by tensor cores, in small dense tiles, with the accuracy of floats.
//
// The idea: in the rungs each non-zero asks for a row of B. Where most elements of A are non-zeros,
// neighbouring rows of A ask for the same rows of B. A tile of 16 rows and 8 columns of A asks for 8 rows
// of B once, and a warp multiplies it with 8 x 8 elements of B by one instruction. The price: zeros in a
// tile are stored, and multiplied, too. So the columns are packed: of 16 rows only those columns are in
// tiles in which one of them has a non-zero (tiles.hpp). With 7 non-zeros a row most places are still
// zeros.
//
// Floats by TF32: a tensor core takes 11 significant bits of the 24 of a float. So each value is split in two:
// big is its nearest TF32 number, and small is what is left, of which the tensor core sees 11 bits more. Then
//   a b = small_a big_b + big_a small_b + big_a big_b + what is lost:
//         small_a small_b, up to 2^-22 of a b; the last bit of small_a and of small_b, up to 2^-23 each
// Three products (3xTF32) in place of one: add_three_products() in tile_plan.hpp. With small integers nothing
// is lost.
//
// Warps: 1,000 rows are 63 bands of 16, so where B has 32 columns there are 63 blocks, fewer than a large
// GPU has SMs. So a block has as many warps, from 4 to 16, as it takes to have kWarpsOfSm of them on each
// SM. They take the tiles of the band in turn, and finish_band() adds their sums in a fixed order.
//
// Loads under way: a warp takes kAhead tiles at once, two where a block has 4 warps and else one. Its lanes
// have asked for their columns one turn before; then it asks for all that it needs of A and B before it
// multiplies the first tile. Of 32 columns of B a lane takes four neighbours by one load. They belong to
// four products of tiles, whose columns are therefore 0, 4, 8, ...; 1, 5, 9, ...; and so on.
//
// Zeros that fill tiles are no non-zeros: times infinity or NaN in B they would make NaN in rows of C that
// have nothing to do with it. And the big part of a float close to the largest may be infinite. Both show
// in the sum: one that is not finite is taken again, from the CSR. Values of less than 2^-114 may lose
// their small part.
//
// Input: float, and compute capability 8.0 or later; other problems are refused. Rows with fewer than 4
// non-zeros have their sums from the CSR, by a second kernel: three products may lose more than the check
// grants so short a row (tiles.hpp). The order of the sums depends on the number of warps, so on the
// matrix, the columns of B and the device, but not on the run. Cost: 544 bytes a tile for 32 columns of C,
// 8 rows of B a tile, C once. Memory: the CSR, and 544 bytes a tile: 68 a non-zero where each column of a
// tile has one (136 at most, where a band's last tile is not full).
//
// Source: the split is that of CUTLASS (example 27, "3xTF32"), and of H. Ootomo and R. Yokota ("Recovering
// single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance",
// IJHPCA 2022).

#include "07_spmm/fast/tile_plan.hpp"
#include "07_spmm/stage.hpp"

namespace stages::spmm {
namespace {

constexpr Offset kWarpsOfSm = 16;  ///< that are to be there

/// What a lane has loaded for kAhead tiles.
template <unsigned kAhead>
struct Loaded {
  float a[kAhead][4];
  float b[kAhead][2][4];
};

template <unsigned kVector, unsigned kWarps, unsigned kAhead>
__global__ void __launch_bounds__(kWarps* kLanesOfTile)
    multiply_dense_tiles(TiledMatrix<float> a, SpmmArgs<float> m) {
  static_assert(kAhead * kTileColumns <= kLanesOfTile);
  const unsigned warp = threadIdx.x / kLanesOfTile, lane = threadIdx.x % kLanesOfTile;
  const unsigned g = lane / 4, k = lane % 4;
  const Offset end = a.first[blockIdx.x + 1];
  // A column of the tiles from `tile` on, as far as the band has them.
  const auto column_from = [&](Offset tile) {
    const Offset place = tile * kTileColumns + lane;
    return lane < kAhead * kTileColumns && place < end * kTileColumns ? a.columns[place] : 0;
  };
  for (Offset strip = blockIdx.y * kTileStrip; strip < m.n_cols; strip += gridDim.y * kTileStrip) {
    const Offset column = strip + 4 * g;
    float sums[4][4] = {};
    Offset tile = a.first[blockIdx.x] + warp * kAhead;
    Index next = column_from(tile);
    for (; tile < end; tile += kWarps * kAhead) {
      const Index mine = next;
      next = column_from(tile + kWarps * kAhead);
      Loaded<kAhead> loaded = {};
#pragma unroll
      for (unsigned u = 0; u < kAhead; ++u) {
        const Index rows_of_b[2] = {__shfl_sync(kAllLanes, mine, static_cast<int>(u * kTileColumns + k)),
                                    __shfl_sync(kAllLanes, mine, static_cast<int>(u * kTileColumns + k + 4))};
        if (tile + u >= end) continue;
        load_vector<4>(a.values + ((tile + u) * kLanesOfTile + lane) * 4, loaded.a[u]);
#pragma unroll
        for (unsigned half = 0; half < 2; ++half) {
          load_four<kVector>(m.b.row(rows_of_b[half]) + column, m.n_cols - column, loaded.b[u][half]);
        }
      }
#pragma unroll
      for (unsigned u = 0; u < kAhead; ++u) {
        if (tile + u < end) add_three_products(sums, loaded.a[u], loaded.b[u]);
      }
    }
    finish_band<kWarps>(a, m, strip, sums);
  }
}

template <class T>
class DenseTiles final : public TilePlan<T> {
 public:
  using TilePlan<T>::TilePlan;

 private:
  static Offset warps_of(const dim3& blocks) {
    Offset warps = 4;
    while (warps < 16 && warps * blocks.x * blocks.y < kWarpsOfSm * device_facts().sms) warps *= 2;
    return warps;
  }

  void multiply_bands(const TiledMatrix<T>& a, const SpmmArgs<T>& product, const dim3& blocks) override {
    if constexpr (std::is_same_v<T, float>) {
      const auto by_warps = [&]<unsigned kWarps>(std::integral_constant<unsigned, kWarps>) {
        constexpr unsigned kAhead = kWarps == 4 ? 2 : 1;
        launch(rows_are_aligned<T>(product.b.ld) ? multiply_dense_tiles<4, kWarps, kAhead>
                                                 : multiply_dense_tiles<1, kWarps, kAhead>,
               {.grid = blocks, .block = kWarps * kLanesOfTile, .stream = this->stream()}, a, product);
      };
      const Offset warps = warps_of(blocks);
      if (warps == 4) by_warps(std::integral_constant<unsigned, 4>());
      if (warps == 8) by_warps(std::integral_constant<unsigned, 8>());
      if (warps == 16) by_warps(std::integral_constant<unsigned, 16>());
    }
  }
};

}  // namespace

void add_dense_tiles(Registry& registry) {
  registry.add<DenseTiles>(
      {.name = "07_spmm/dense_tiles",
       .idea = "tiles of 16 x 8 on tensor cores, several under way, by as many warps as the GPU has room for",
       .previous = "strips"});
}

}  // namespace stages::spmm
