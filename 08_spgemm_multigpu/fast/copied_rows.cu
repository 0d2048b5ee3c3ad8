// Rows of C that are one row of B, scaled.
//
// The idea: where all non-zeros of a row of A but one meet empty rows of B (or there is only one, as in a
// permutation, a diagonal or a hypersparse matrix), the row of C has the columns of that row of B, and its
// values times one factor. Nothing is counted, hashed or sorted. Up to 64 products eight lanes do a row, four
// rows a warp; more are a block's work.
//
// Input: rows with exactly one non-zero of A whose row of B is not empty. Cost: the row of B read and written.

#include "08_spgemm_multigpu/fast/forms.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages::spgemm {
namespace {

constexpr unsigned kBlock = 256;
constexpr unsigned kTeam = 8;

/// The position of A's non-zero in row `row` whose row of B is not empty: as seen by one of `members` threads,
/// -1 if it looked elsewhere.
template <class T, class Ptr>
__device__ Ptr entry_seen(const Factors<T, Ptr>& f, Index row, unsigned me, unsigned members) {
  Ptr seen = -1;
  const Ptr end = f.a.row_ptr[row + 1];
  for (Ptr e = f.a.row_ptr[row] + static_cast<Ptr>(me); e < end; e += static_cast<Ptr>(members)) {
    const Index k = f.a.col_idx[e];
    if (f.b.row_ptr[k] < f.b.row_ptr[k + 1]) seen = e;
  }
  return seen;
}

template <class T, class Ptr>
__device__ void copy_row(const Factors<T, Ptr>& f, Index row, Ptr entry, unsigned me, unsigned members,
                         const Output<T>& c) {
  const Index k = f.a.col_idx[entry];
  const T factor = f.a.values[entry];
  const Ptr from = f.b.row_ptr[k], to = f.b.row_ptr[k + 1];
  const Offset out = c.row_ptr[row] - c.base - from;
  for (Ptr q = from + static_cast<Ptr>(me); q < to; q += static_cast<Ptr>(members)) {
    c.col_idx[out + q] = f.b.col_idx[q];
    c.values[out + q] = factor * f.b.values[q];
  }
}

template <class T, class Ptr>
__global__ void __launch_bounds__(kBlock) copy_by_teams(Factors<T, Ptr> f, RowList list, Output<T> c) {
  const unsigned number = blockIdx.x * (kBlock / kTeam) + threadIdx.x / kTeam, lane = threadIdx.x % kTeam;
  const bool has_row = number < list.size();
  const Index row = has_row ? list.rows[number] : 0;
  Ptr entry = has_row ? entry_seen(f, row, lane, kTeam) : Ptr{-1};
  for (unsigned d = kTeam / 2; d > 0; d /= 2) {
    entry = max(entry, __shfl_xor_sync(kAllLanes, entry, static_cast<int>(d), kTeam));
  }
  if (has_row) copy_row(f, row, entry, lane, kTeam, c);
}

template <class T, class Ptr>
__global__ void __launch_bounds__(kBlock) copy_by_blocks(Factors<T, Ptr> f, RowList list, Output<T> c) {
  __shared__ Ptr entry;
  take_rows(list, 1, [&](Index row, unsigned, Index) {
    const Ptr seen = entry_seen(f, row, threadIdx.x, kBlock);
    if (seen >= 0) entry = seen;  // one thread only sees it
    __syncthreads();
    copy_row(f, row, entry, threadIdx.x, kBlock, c);
  });
}

}  // namespace

template <class T, class Ptr>
void multiply_copied(const Factors<T, Ptr>& f, RowList list, Form form, const Output<T>& c,
                     cudaStream_t stream) {
  if (form == Form::copied_long) {
    launch(copy_by_blocks<T, Ptr>, {.grid = blocks_for_rows(list), .block = kBlock, .stream = stream}, f,
           list, c);
  } else {
    launch(copy_by_teams<T, Ptr>,
           {.grid = blocks_for(list.count, kBlock / kTeam), .block = kBlock, .stream = stream}, f, list, c);
  }
}

STAGES_FOR_VALUES_AND_POINTERS(multiply_copied)

}  // namespace stages::spgemm
