// SpMM in equal shares, 16 bytes a lane.
//
// The idea: a lane takes 16 bytes of a row of B by one load, 4 floats or 2 doubles. So 8 lanes (of doubles 16)
// do what 32 did in 5_loads_ahead.cu: 32 columns. They are a group, which has a share of its own, and a warp
// works on 4 (or 2) rows of B by each instruction: a quarter (or half) of the loads, shuffles and tests for
// the end of a row. (A warp has 16 rows of B under way, too; whether that matters is not known.)
//
// Where rows of B do not begin at multiples of 16 bytes, a group is a warp with a column a lane, as in
// 5_loads_ahead.cu. Groups are four times as many now (of doubles twice), so share_of() makes shares smaller:
// more rows are cut, and the second kernel has more partial sums to add.
//
// What remains: that second kernel. On graphs with a hub row it takes half of the time with 32 columns, since
// one warp adds all partial sums of the hub; fast/cut_rows.cu shares them out. And with many columns all of B
// is in use at one time.
//
// Input and cost: as 4_equal_shares.cu. Source: vectors are those of C. Yang, A. Buluc and J. D. Owens
// ("Design principles for sparse matrix multiplication on the GPU", Euro-Par 2018).

#include "07_spmm/shares.hpp"
#include "07_spmm/stage.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kBlock = 128;
constexpr unsigned kBlocks = 8;  ///< of an SM, at least: 64 registers a thread
constexpr unsigned kAhead = 4;   ///< rows of B that a lane asks for before it adds the first
constexpr unsigned kStrip = 32;  ///< columns that a group does at a time

template <unsigned kVector, class T>
__global__ void __launch_bounds__(kBlock, kBlocks) multiply(CutMatrix<T> a, SpmmArgs<T> m) {
  constexpr unsigned kLanes = kStrip / kVector;  ///< of a group
  const unsigned lane = threadIdx.x % kLanes, group_shift = threadIdx.x % kWarp - lane;
  const Offset number = (Offset{blockIdx.x} * kBlock + threadIdx.x) / kLanes;
  const Share share = number < a.partition.shares ? a.partition.share[number] : Share{};
  const int longest = warp_max(share.length);  // groups of a warp shuffle together, to the end of them all
  for (Offset strip = 0; strip < m.n_cols; strip += kStrip) {
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

void add_vector_lanes(Registry& registry, const std::string& name, Index share) {
  add_shares(
      registry,
      {.name = name,
       .idea = "equal shares; a lane takes 16 bytes of a row of B, so a warp works on four shares",
       .previous = "loads_ahead"},
      share, Group::lanes_of_vectors,
      []<class T>(const CutMatrix<T>& a, const SpmmArgs<T>& product, unsigned lanes, cudaStream_t stream) {
        launch(lanes == kWarp ? multiply<1, T> : multiply<kVectorLength<T>, T>,
               {.grid = blocks_for(a.partition.shares, kBlock / lanes), .block = kBlock, .stream = stream}, a,
               product);
      });
}

}  // namespace stages::spmm
