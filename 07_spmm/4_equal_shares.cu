// SpMM in equal shares of the non-zeros.
//
// The idea: what a warp has to do is its non-zeros, whatever their rows. So every warp gets `share` of them
// that follow each other. It finds the row of the first by binary search in the row pointers, which takes
// the place of a list made in prepare. Where a row ends, the warp gives the sum to C: by a store, but by
// atomicAdd for the first and the last row of the share, which may go on in another's. C is set before, as
// in 2_split_rows.cu; so empty rows are right. (Where beta is not 0, C holds something, and all rows are
// added.)
//
// What it costs: a search of 20 steps for a million rows, each a load that waits for the one before. What
// remains: at the end of a row all rows of B must have come before the next is asked for, and rows are
// short.
//
// The few atomics are enough to make the last bits differ from run to run. fast/balanced.cu keeps the sums
// of cut rows in an array, and adds them in a fixed order by a second kernel.
//
// Input: any CSR matrix, any number of columns. Cost: A and a row of B for each non-zero, C twice.
//
// Sources: D. Merrill and M. Garland ("Merge-based parallel sparse matrix-vector multiplication", SC 2016);
// for SpMM C. Yang, A. Buluc and J. D. Owens ("Design principles for sparse matrix multiplication on the
// GPU", Euro-Par 2018).

#include "07_spmm/shares.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kBlock = 128;

template <class T, class Ptr>
__global__ void multiply(CsrView<T, Ptr> a, SpmmArgs<T> m, Offset nnz, Index share) {
  const Offset place = (Offset{blockIdx.x} * kBlock + threadIdx.x) / kWarp * share;
  if (place >= nnz) return;
  const auto begin = static_cast<Ptr>(place), end = static_cast<Ptr>(min(place + share, nnz));
  Index first = 0;  // becomes the last row that begins at `begin` or before
  for (Index n = a.rows; n > 1; n -= n / 2) first += a.row_ptr[first + n / 2] <= begin ? n / 2 : 0;
  for (Index column = threadIdx.x % kWarp; column < m.n_cols; column += kWarp) {
    Ptr p = begin;
    for (Index row = first; p < end; ++row) {
      const Ptr stop = min(a.row_ptr[row + 1], end);
      T sum = 0;
      for (; p < stop; ++p) {
        const T value = a.values[p];
        const T* const from = m.b.row(a.col_idx[p]);
        sum += value * from[column];
      }
      T& element = m.c.row(row)[column];
      const bool is_alone = row != first && stop != end && m.beta == T{0};
      if (is_alone) element = m.alpha * sum;
      if (!is_alone) atomicAdd(&element, m.alpha * sum);
    }
  }
}

}  // namespace

void add_equal_shares(Registry& registry) {
  add_shares<false>(registry,
                    {.name = "07_spmm/equal_shares",
                     .idea = "a warp for an equal share of the non-zeros; atomics for its first and last row",
                     .previous = "split_rows"},
                    []<class T, class Ptr>(const CsrView<T, Ptr>& a, const SpmmArgs<T>& product, Offset nnz,
                                           Index share, cudaStream_t stream) {
                      const unsigned blocks = blocks_for(nnz, Offset{share} * (kBlock / kWarp));
                      launch(multiply<T, Ptr>, {.grid = blocks, .block = kBlock, .stream = stream}, a,
                             product, nnz, share);
                    });
}

}  // namespace stages::spmm
