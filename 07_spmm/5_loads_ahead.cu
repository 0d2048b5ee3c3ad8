// SpMM in equal shares, several rows of B under way.
//
// The idea: 4_equal_shares.cu waits. A row of B takes perhaps 800 clocks to come, and an SM should have some
// 220 rows of 128 bytes under way to keep L2 busy. File 4 leaves that to the compiler, and waits for all of
// them where a row of A ends. So here a lane asks for its column of 4 rows of B before it adds the first,
// wherever rows of A end among these: the sums are separated when the rows of B have come.
//
// The next non-zeros, one a lane, stay in registers. Shuffles hand them to all lanes of the warp, two for each
// non-zero, in place of two loads from shared memory; no __syncwarp() is needed. Files 6 and 7 do the same,
// within a group of lanes.
//
// What it costs: for each non-zero a test whether it is there, and one whether a row ends with it. This file
// is faster than file 4 where rows of A are short, and slower where they are long (notes.md, "Rows of B under
// way"). What remains: a lane asks for 4 bytes at a time. 6_vector_lanes.cu asks for 16.
//
// Input and cost: as 4_equal_shares.cu. Source: several loads a thread are those of C. Yang, A. Buluc and J.
// D. Owens ("Design principles for sparse matrix multiplication on the GPU", Euro-Par 2018).

#include "07_spmm/shares.hpp"
#include "07_spmm/stage.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kWarps = 4;  ///< of a block
constexpr unsigned kAhead = 4;  ///< rows of B that a lane asks for before it adds the first

template <class T>
__global__ void __launch_bounds__(kWarps* kWarp) multiply(CutMatrix<T> a, SpmmArgs<T> m) {
  const unsigned lane = threadIdx.x % kWarp;
  const Offset number = Offset{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (number >= a.partition.shares) return;  // the whole warp leaves
  const Share share = a.partition.share[number];
  for (Offset strip = 0; strip < m.n_cols; strip += kWarp) {
    const Offset column = strip + lane;
    const bool has_column = column < m.n_cols;
    const Index* row = a.partition.rows + share.row;
    T sum[1] = {};
    for (int base = 0; base < share.length; base += static_cast<int>(kWarp)) {
      const int left = share.length - base;
      const bool is_there = static_cast<int>(lane) < left;
      const Index my_column = is_there ? a.columns[share.begin + base + lane] : 0;
      const T my_value = is_there ? a.values[share.begin + base + lane] : T{0};
      const unsigned ends = __ballot_sync(kAllLanes, my_column < 0);  // a bit for each last non-zero of a row
      for (unsigned first = 0; first < kWarp; first += kAhead) {
        T values[kAhead], b[kAhead] = {};
#pragma unroll
        for (unsigned u = 0; u < kAhead; ++u) {
          const auto k = static_cast<int>(first + u);
          const Index row_of_b = __shfl_sync(kAllLanes, my_column, k) & kColumnBits;
          values[u] = __shfl_sync(kAllLanes, my_value, k);
          if (k < left && has_column) b[u] = m.b.row(row_of_b)[column];
        }
#pragma unroll
        for (unsigned u = 0; u < kAhead; ++u) {
          sum[0] += values[u] * b[u];
          if ((ends >> (first + u) & 1) == 0) continue;
          if (has_column) finish_row<1>(m, *row, column, sum);
          sum[0] = T{0};
          ++row;
        }
      }
    }
    if (share.slot >= 0 && has_column) a.slots[Offset{share.slot} * a.ld_slots + column] = sum[0];
  }
}

}  // namespace

void add_loads_ahead(Registry& registry, const std::string& name, Index share) {
  add_shares(
      registry,
      {.name = name,
       .idea = "equal shares; a lane asks for its column of four rows of B before it adds the first",
       .previous = "equal_shares"},
      share, Group::warp,
      []<class T>(const CutMatrix<T>& a, const SpmmArgs<T>& product, unsigned, cudaStream_t stream) {
        launch(multiply<T>,
               {.grid = blocks_for(a.partition.shares, kWarps), .block = kWarps * kWarp, .stream = stream}, a,
               product);
      });
}

}  // namespace stages::spmm
