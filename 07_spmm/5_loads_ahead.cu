// SpMM in equal shares, eight rows of B asked for before the first is added.
//
// The idea: a row of B takes perhaps 800 clocks to come, and 4_equal_shares.cu waits for all of them where
// a row of A ends: with 7 non-zeros a row, nearly always. Here a lane asks for its column of eight rows of
// B, wherever rows of A end among these, and then adds them one by one. The compiler cannot do that for us:
// it may not move a load of B before a store to C, which could have written there.
//
// What it costs: a test for each non-zero whether its row ends, and more registers, so fewer warps. What
// remains: a lane asks for 4 bytes at a time.
//
// Input and cost: as 4_equal_shares.cu. Empty rows are passed over: C was set for them. In the last eight
// non-zeros of a share, those that it does not have are the last one again: no lane needs a test before it
// loads. Source: C. Yang, A. Buluc and J. D. Owens ("Design principles for sparse matrix multiplication on
// the GPU", Euro-Par 2018).

#include "07_spmm/shares.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kBlock = 128;
constexpr Index kAhead = 8;  ///< rows of B that a lane asks for before it adds the first

template <class T, class Ptr>
__global__ void multiply(CsrView<T, Ptr> a, SpmmArgs<T> m, Offset nnz, Index share) {
  const Offset begin = (Offset{blockIdx.x} * kBlock + threadIdx.x) / kWarp * share;
  if (begin >= nnz) return;
  const auto count = static_cast<Index>(min(Offset{share}, nnz - begin));
  const auto stop_of = [&](Index row) {
    return static_cast<Index>(min(a.row_ptr[row + 1] - begin, Offset{count}));
  };
  Index first = 0;  // becomes the last row that begins at `begin` or before
  for (Index n = a.rows; n > 1; n -= n / 2) first += a.row_ptr[first + n / 2] <= begin ? n / 2 : 0;
  for (Index column = threadIdx.x % kWarp; column < m.n_cols; column += kWarp) {
    Index row = first, stop = stop_of(row);
    T sum = 0;
    for (Index i = 0; i < count; i += kAhead) {
      T values[kAhead], b[kAhead];
#pragma unroll
      for (Index u = 0; u < kAhead; ++u) {
        const Offset p = begin + min(i + u, count - 1);
        values[u] = a.values[p];
        b[u] = m.b.row(a.col_idx[p])[column];
      }
#pragma unroll
      for (Index u = 0; u < kAhead; ++u) {
        sum += values[u] * b[u];
        if (i + u + 1 != stop) continue;
        T& element = m.c.row(row)[column];
        const bool is_alone = row != first && stop != count && m.beta == T{0};
        if (is_alone) element = m.alpha * sum;
        if (!is_alone) atomicAdd(&element, m.alpha * sum);
        sum = 0;
        for (const Index was = stop; stop == was && was < count;) stop = stop_of(++row);
      }
    }
  }
}

}  // namespace

void add_loads_ahead(Registry& registry) {
  add_shares<false>(
      registry,
      {.name = "07_spmm/loads_ahead",
       .idea = "equal shares; a lane asks for its column of eight rows of B before it adds the first",
       .previous = "equal_shares"},
      []<class T, class Ptr>(const CsrView<T, Ptr>& a, const SpmmArgs<T>& product, Offset nnz, Index share,
                             cudaStream_t stream) {
        const unsigned blocks = blocks_for(nnz, Offset{share} * (kBlock / kWarp));
        launch(multiply<T, Ptr>, {.grid = blocks, .block = kBlock, .stream = stream}, a, product, nnz, share);
      });
}

}  // namespace stages::spmm
