// SpMM in equal shares of the non-zeros, without atomics.
//
// The idea: 3_merged_short_rows.cu needs three numbers to make tasks alike. Here the non-zeros themselves are
// cut: every share has about the same number, whatever the rows. A warp walks through its share from the first
// non-zero to the last. Where a row ends, it stores its sum to C (finish_row() in shares.hpp) and goes on with
// the next row.
//
// Prepare finds where shares begin by binary search over the row pointers (partition.hpp). A boundary moves
// back to the beginning of its row if that is near; else it cuts the row. Prepare also marks the last non-zero
// of each row by the sign bit of its column, so that a ballot tells a warp where rows end, and lists the rows
// that are not empty.
//
// No atomics: of a row that is cut, the share in which it ends stores the last part to C. Each earlier share
// leaves its partial sum in a slot of its own. A second, small kernel adds the slots of a row to C, always in
// the same order, and sets the empty rows. So nothing must be zero before, and all runs give the same bits.
//
// A warp takes all columns of its share, 32 at a time, a lane a column: its part of A comes from memory once,
// and out of L1 for the other columns. The price: in files 1 to 3 a lane had two columns, and each strip of 64
// a warp of its own; here one warp does N = 128 in four turns. 6_vector_lanes.cu mends the width of a lane,
// 7_strips.cu brings the strips back to the grid, where the second kernel has them already. C is stored with
// the streaming hint, which leaves the caches to B (vectors.hpp).
//
// What remains: a lane asks for 4 bytes at a time, and at the end of a row of A the warp waits for all rows of
// B under way. A hub row with hundreds of slots is one warp's work in the second kernel; fast/cut_rows.cu
// shares it out.
//
// Input: any CSR matrix, any number of columns. Cost: A and a row of B for each non-zero, C once; a row of
// slots written and read for each boundary that cuts a row. Memory: 40 bytes a share, 8 a row, the slots.
//
// Sources: equal shares of non-zeros are those of D. Merrill and M. Garland ("Merge-based parallel sparse
// matrix-vector multiplication", SC 2016), for SpMM of C. Yang, A. Buluc and J. D. Owens ("Design principles
// for sparse matrix multiplication on the GPU", Euro-Par 2018).

#include "07_spmm/shares.hpp"
#include "07_spmm/stage.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kWarps = 4;  ///< of a block

template <class T>
__global__ void __launch_bounds__(kWarps* kWarp) multiply(CutMatrix<T> a, SpmmArgs<T> m) {
  __shared__ Index staged_columns[kWarps][kWarp];
  __shared__ T staged_values[kWarps][kWarp];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const Offset number = Offset{blockIdx.x} * kWarps + warp;
  if (number >= a.partition.shares) return;  // the whole warp leaves
  const Share share = a.partition.share[number];
  for (Offset strip = 0; strip < m.n_cols; strip += kWarp) {
    const Offset column = strip + lane;
    const bool has_column = column < m.n_cols;
    const Index* row = a.partition.rows + share.row;
    T sum[1] = {};
    for (Index base = 0; base < share.length; base += static_cast<Index>(kWarp)) {
      const auto count = min(static_cast<unsigned>(share.length - base), kWarp);
      Index mine = 0;
      __syncwarp();  // the 32 before these have been read by all
      if (lane < count) {
        mine = a.columns[share.begin + base + lane];
        staged_columns[warp][lane] = mine & kColumnBits;
        staged_values[warp][lane] = a.values[share.begin + base + lane];
      }
      const unsigned ends = __ballot_sync(kAllLanes, mine < 0);  // a bit for each last non-zero of a row
      __syncwarp();
      for (unsigned k = 0; k < count;) {
        const unsigned rest = ends >> k;
        const unsigned stop = rest != 0 ? k + static_cast<unsigned>(__ffs(static_cast<int>(rest))) : count;
        for (; k < stop; ++k) {  // no end of a row within: nothing is stored here
          if (has_column) sum[0] += staged_values[warp][k] * m.b.row(staged_columns[warp][k])[column];
        }
        if (rest == 0) continue;
        if (has_column) finish_row<1>(m, *row, column, sum);
        sum[0] = T{0};
        ++row;
      }
    }
    if (share.slot >= 0 && has_column) a.slots[Offset{share.slot} * a.ld_slots + column] = sum[0];
  }
}

/// A warp for each cut row, which adds up its slots, and for each empty row; a lane a column.
template <class T>
__global__ void __launch_bounds__(kWarps* kWarp) finish(CutMatrix<T> a, SpmmArgs<T> m) {
  const PartitionView& all = a.partition;
  const Offset number = Offset{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  for (Offset strip = blockIdx.y * kWarp; strip < m.n_cols; strip += gridDim.y * kWarp) {
    const Offset column = strip + threadIdx.x % kWarp;
    if (column >= m.n_cols || number >= Offset{all.cut_rows} + all.empty_rows) continue;
    if (number >= all.cut_rows) {
      const T nothing[1] = {};
      finish_row<1>(m, all.empty[number - all.cut_rows], column, nothing);
      continue;
    }
    const Index first = all.cut_row[number].first_slot, behind = all.cut_row[number + 1].first_slot;
    T sum = 0;
#pragma unroll 8
    for (Index slot = first; slot < behind; ++slot) sum += a.slots[Offset{slot} * a.ld_slots + column];
    m.c.row(all.cut_row[number].row)[column] += m.alpha * sum;
  }
}

}  // namespace

template <class T>
void finish_cut_and_empty_rows(const CutMatrix<T>& a, const SpmmArgs<T>& product, cudaStream_t stream) {
  const Offset rows = Offset{a.partition.cut_rows} + a.partition.empty_rows;
  launch(finish<T>,
         {.grid = {blocks_for(rows, kWarps), std::min(kMostStrips, blocks_for(product.n_cols, kWarp))},
          .block = kWarps * kWarp,
          .stream = stream},
         a, product);
}

void add_equal_shares(Registry& registry, const std::string& name, Index share) {
  add_shares(
      registry,
      {.name = name,
       .idea = "a warp for an equal share of the non-zeros; parts of cut rows are added in a fixed order",
       .previous = "merged_short_rows"},
      share, Group::warp,
      []<class T>(const CutMatrix<T>& a, const SpmmArgs<T>& product, unsigned, cudaStream_t stream) {
        launch(multiply<T>,
               {.grid = blocks_for(a.partition.shares, kWarps), .block = kWarps * kWarp, .stream = stream}, a,
               product);
      });
}

STAGES_FOR_VALUES(finish_cut_and_empty_rows)

}  // namespace stages::spmm
