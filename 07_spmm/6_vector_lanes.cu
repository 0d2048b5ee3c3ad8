// SpMM in equal shares, 16 bytes a lane.
//
// The idea: a lane takes 16 bytes of a row of B by one load, 4 floats or 2 doubles. So 8 lanes (of doubles
// 16) do what 32 did in 5_loads_ahead.cu: 32 columns. They are a group, which has a share of its own, and a
// warp works on 4 (or 2) shares by the same instructions: for each non-zero a quarter (or half) of the
// loads and of the tests for the end of a row. Shares are a quarter (or half) as long, so that there are as
// many warps as before. Where rows end, the groups of a warp wait for each other. (Whole rows of C are stored
// by __stcs, one store of 16 bytes, which also leaves the caches to B: nvcc 13 makes four of a plain one.)
//
// Where rows of B or C do not begin and end at multiples of 16 bytes, a group is a warp with a column a
// lane, as in 5_loads_ahead.cu.
//
// What remains: a share is done for all columns before the next share, so with many columns all of B is in
// use at one time.
//
// Input and cost: as 4_equal_shares.cu. Source: C. Yang, A. Buluc and J. D. Owens ("Design principles for
// sparse matrix multiplication on the GPU", Euro-Par 2018).

#include "07_spmm/shares.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kBlock = 128;
constexpr Index kStrip = 32;  ///< columns that a group of lanes does at a time
constexpr Index kAhead = 8;   ///< rows of B that a lane asks for before it adds the first

/// Neighbours in a row, which one load takes; and CUDA's type for them, which __stcs wants.
template <class T, Index kVector>
struct alignas(kVector * sizeof(T)) Vector {
  using OfCuda = std::conditional_t<kVector == 1, T, std::conditional_t<kVector == 4, float4, double2>>;
  T at[kVector] = {};
};

template <Index kVector, class T, class Ptr>
__global__ void multiply(CsrView<T, Ptr> a, SpmmArgs<T> m, Offset nnz, Index share) {
  using V = Vector<T, kVector>;
  constexpr Index kLanes = kStrip / kVector;
  const Offset begin = (Offset{blockIdx.x} * kBlock + threadIdx.x) / kLanes * share;
  if (begin >= nnz) return;
  const auto count = static_cast<Index>(min(Offset{share}, nnz - begin));
  const auto stop_of = [&](Index row) {
    return static_cast<Index>(min(a.row_ptr[row + 1] - begin, Offset{count}));
  };
  Index first = 0;  // becomes the last row that begins at `begin` or before
  for (Index n = a.rows; n > 1; n -= n / 2) first += a.row_ptr[first + n / 2] <= begin ? n / 2 : 0;
  for (Index column = threadIdx.x % kLanes * kVector; column < m.n_cols; column += kStrip) {
    Index row = first, stop = stop_of(row);
    V sums;
    for (Index i = 0; i < count; i += kAhead) {
      T values[kAhead];
      V b[kAhead];
#pragma unroll
      for (Index u = 0; u < kAhead; ++u) {
        const Offset p = begin + min(i + u, count - 1);
        values[u] = a.values[p];
        b[u] = reinterpret_cast<const V&>(m.b.row(a.col_idx[p])[column]);
      }
#pragma unroll
      for (Index u = 0; u < kAhead; ++u) {
        for (Index v = 0; v < kVector; ++v) sums.at[v] += values[u] * b[u].at[v];
        if (i + u + 1 != stop) continue;
        V& elements = reinterpret_cast<V&>(m.c.row(row)[column]);
        const bool is_alone = row != first && stop != count && m.beta == T{0};
        for (Index v = 0; v < kVector; ++v) sums.at[v] *= m.alpha;
        if (is_alone) __stcs(reinterpret_cast<V::OfCuda*>(&elements), reinterpret_cast<V::OfCuda&>(sums));
        for (Index v = 0; v < kVector && !is_alone; ++v) atomicAdd(&elements.at[v], sums.at[v]);
        sums = {};
        for (const Index was = stop; stop == was && was < count;) stop = stop_of(++row);
      }
    }
  }
}

}  // namespace

void add_vector_lanes(Registry& registry) {
  add_shares<true>(
      registry,
      {.name = "07_spmm/vector_lanes",
       .idea = "equal shares; a lane takes 16 bytes of a row of B, so a warp works on four shares",
       .previous = "loads_ahead"},
      []<class T, class Ptr>(const CsrView<T, Ptr>& a, const SpmmArgs<T>& product, Offset nnz, Index share,
                             cudaStream_t stream) {
        constexpr Index kVector = kVectorLength<T>;
        const bool vectors = takes_vectors(product);
        const unsigned blocks = blocks_for(nnz, Offset{share} * (kBlock / kStrip * (vectors ? kVector : 1)));
        launch(vectors ? multiply<kVector, T, Ptr> : multiply<1, T, Ptr>,
               {.grid = blocks, .block = kBlock, .stream = stream}, a, product, nnz, share);
      });
}

}  // namespace stages::spmm
