// SpMM in equal shares, strip of columns by strip of columns.
//
// The idea: 6_vector_lanes.cu takes a share for all columns before the next share. With 256 columns a
// non-zero asks for 1 KB of B, and all of B is in use at a time; if it is larger than the caches, few of
// its rows may still be there when the next non-zero asks for them. So the loop over strips of 32 columns
// moves from the kernel to the grid, as its outer dimension: in practice blocks start in the order of x,
// then of y, so nearly all shares are done for one strip before the next begins. The caches must then hold
// a strip of B, 128 bytes a row. (The loop stays for more than 65,535 strips, which a grid does not have.)
//
// What it costs: A is read from memory once for each strip, 8 bytes a non-zero beside 128 of B, and a group
// looks for its first row once for each strip. Up to 32 columns this is the kernel of 6_vector_lanes.cu.
//
// Input: as 4_equal_shares.cu. Cost: A once for each strip, a strip of a row of B for each non-zero and
// strip, C twice. Source: strips of columns are cache blocking, as for dense matrices.

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
  for (Offset column = Offset{blockIdx.y} * kStrip + threadIdx.x % kLanes * kVector; column < m.n_cols;
       column += Offset{gridDim.y} * kStrip) {
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

void add_strips(Registry& registry) {
  add_shares<true>(registry,
                   {.name = "07_spmm/strips",
                    .idea = "all shares for a strip of 32 columns, then for the next strip",
                    .previous = "vector_lanes"},
                   []<class T, class Ptr>(const CsrView<T, Ptr>& a, const SpmmArgs<T>& product, Offset nnz,
                                          Index share, cudaStream_t stream) {
                     constexpr Index kVector = kVectorLength<T>;
                     const bool vectors = takes_vectors(product);
                     const unsigned blocks =
                         blocks_for(nnz, Offset{share} * (kBlock / kStrip * (vectors ? kVector : 1)));
                     launch(vectors ? multiply<kVector, T, Ptr> : multiply<1, T, Ptr>,
                            {.grid = {blocks, std::min(kMostStrips, blocks_for(product.n_cols, kStrip))},
                             .block = kBlock,
                             .stream = stream},
                            a, product, nnz, share);
                   });
}

}  // namespace stages::spmm
