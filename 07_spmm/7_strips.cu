// SpMM in equal shares, strip of columns by strip of columns.
//
// The idea: 6_vector_lanes.cu takes a share for all columns before the next share. With 256 columns a non-zero
// asks for 1 KB of B, and all of B is in use at a time; if it is larger than the caches, few of its rows may
// still be there when the next non-zero asks for them. So the loop over strips of 32 columns moves from the
// kernel to the grid, as its outer dimension: in practice blocks start in the order of x, then of y, so nearly
// all shares are done for one strip before the next begins. The caches must then hold a strip of B, 128 bytes
// a row. (The loop in the kernel stays for more than 65,535 strips, which a grid does not have.)
//
// On an H100 ppa with N = 128 takes 3.37 ms in place of 4.89, and amazon with N = 256 55.9 ms in place of 89.4
// (notes.md): of their B, 295 MB and 1.6 GB, a strip has 74 and 201, of which L2's 52 hold a larger part.
// ddi, whose B fits into L2, gains, too; why is not known. The 27-point stencil, 110 MB of B with N = 128,
// loses 4 %; perhaps because neighbouring rows of A need the same rows of B anyway.
//
// What it costs: A is read once for each strip, 8 bytes a non-zero beside 128 of B, and a group begins its
// share anew for each strip. Up to 32 columns this is the kernel of 6_vector_lanes.cu.
//
// Input: as 4_equal_shares.cu. Cost: A once for each strip, a strip of a row of B for each non-zero and strip,
// C once. Source: strips of columns are cache blocking, as for dense matrices.

#include "07_spmm/shares.hpp"
#include "07_spmm/stage.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kBlock = 128;
constexpr unsigned kBlocks = 8;  ///< of an SM, at least: 64 registers a thread
constexpr unsigned kAhead = 4;   ///< rows of B that a lane asks for before it adds the first
constexpr unsigned kStrip = 32;  ///< columns that a group does

template <unsigned kVector, class T>
__global__ void __launch_bounds__(kBlock, kBlocks) multiply(CutMatrix<T> a, SpmmArgs<T> m) {
  constexpr unsigned kLanes = kStrip / kVector;  ///< of a group
  const unsigned lane = threadIdx.x % kLanes, group_shift = threadIdx.x % kWarp - lane;
  const Offset number = (Offset{blockIdx.x} * kBlock + threadIdx.x) / kLanes;
  const Share share = number < a.partition.shares ? a.partition.share[number] : Share{};
  const int longest = warp_max(share.length);  // groups of a warp shuffle together, to the end of them all
  for (Offset strip = blockIdx.y * kStrip; strip < m.n_cols; strip += gridDim.y * kStrip) {
    const Offset column = strip + lane * kVector;
    const Index* row = a.partition.rows + share.row;
    T sums[kVector] = {};
    for (int base = 0; base < longest; base += static_cast<int>(kLanes)) {
      const int left = share.length - base;
      const bool is_there = static_cast<int>(lane) < left;
      const Index my_column = is_there ? a.columns[share.begin + base + lane] : 0;
      const T my_value = is_there ? a.values[share.begin + base + lane] : T{0};
      const unsigned ends = __ballot_sync(kAllLanes, my_column < 0) >> group_shift;
      for (unsigned first = 0; first < kLanes; first += kAhead) {
        T values[kAhead], b[kAhead][kVector] = {};
#pragma unroll
        for (unsigned u = 0; u < kAhead; ++u) {
          const auto k = static_cast<int>(first + u);
          const Index row_of_b = __shfl_sync(kAllLanes, my_column, k, kLanes) & kColumnBits;
          values[u] = __shfl_sync(kAllLanes, my_value, k, kLanes);
          if (k < left && column < m.n_cols) load_vector<kVector>(m.b.row(row_of_b) + column, b[u]);
        }
#pragma unroll
        for (unsigned u = 0; u < kAhead; ++u) {
#pragma unroll
          for (unsigned v = 0; v < kVector; ++v) sums[v] += values[u] * b[u][v];
          if ((ends >> (first + u) & 1) == 0) continue;
          if (column < m.n_cols) finish_row(m, *row, column, sums);
#pragma unroll
          for (unsigned v = 0; v < kVector; ++v) sums[v] = T{0};
          ++row;
        }
      }
    }
    if (share.slot >= 0 && column < m.n_cols) {
      store_vector<kVector>(a.slots + Offset{share.slot} * a.ld_slots + column, sums);
    }
  }
}

}  // namespace

void add_strips(Registry& registry, const std::string& name, Index share) {
  add_shares(
      registry,
      {.name = name,
       .idea = "equal shares with 16 bytes a lane; all of the matrix for a strip of 32 "
               "columns, then the next strip",
       .previous = "vector_lanes"},
      share, Group::lanes_of_vectors,
      []<class T>(const CutMatrix<T>& a, const SpmmArgs<T>& product, unsigned lanes, cudaStream_t stream) {
        launch(lanes == kWarp ? multiply<1, T> : multiply<kVectorLength<T>, T>,
               {.grid = {blocks_for(a.partition.shares, kBlock / lanes),
                         std::min(kMostStrips, blocks_for(product.n_cols, kStrip))},
                .block = kBlock,
                .stream = stream},
               a, product);
      });
}

}  // namespace stages::spmm
