// Near-dense matrices in tiles, with all of the GPU at work however few rows there are. 8_tensor_tiles.cu
// leaves two things to be had:
//
// Warps. 1,000 rows are 63 bands of 16, so where B has 32 columns there are 63 blocks, fewer than a large GPU
// has SMs. Here a block has as many warps, from 4 to 16, as it takes to have kWarpsOfSm of them on each SM.
//
// Loads under way. There the row of B that a lane asks for is known when a tile's columns have come, and the
// next tile waits for both. Here a warp takes kAhead tiles at once, two where a block has 4 warps and else
// one: its lanes have asked for their columns one turn before; then it asks for all that it needs of A and B
// before it multiplies the first tile.
//
// Input, cost, memory and exactness: those of tensor_tiles. The order of the sums depends on the number of
// warps, so on the matrix, the columns of B and the device, but not on the run.

#include "07_spmm/stage.hpp"
#include "07_spmm/tile_plan.hpp"

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
       .previous = "tensor_tiles"});
}

}  // namespace stages::spmm
