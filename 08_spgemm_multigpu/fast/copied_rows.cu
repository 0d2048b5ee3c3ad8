// Short rows of C that are one row of B, scaled.
//
// The idea: where all non-zeros of a row of A but one meet empty rows of B (or there is only one, as in a
// permutation, a diagonal or a hypersparse matrix), the row of C has the columns of that row of B, and its
// values times one factor. Nothing is counted, hashed or sorted. Eight lanes do a row.
//
// Input: rows with exactly one non-zero of A whose row of B is not empty. Cost: the row of B read and written.

#include "08_spgemm_multigpu/fast/forms.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages::spgemm {
namespace {

constexpr unsigned kBlock = 256;
constexpr unsigned kTeam = 8;

template <class T, class Ptr>
__global__ void __launch_bounds__(kBlock) copy_rows(Factors<T, Ptr> f, RowList list, Output<T> c) {
  const unsigned number = blockIdx.x * (kBlock / kTeam) + threadIdx.x / kTeam, lane = threadIdx.x % kTeam;
  const bool has_row = number < list.size();
  const Index row = has_row ? list.rows[number] : 0;
  const Ptr end = has_row ? f.a.row_ptr[row + 1] : 0;
  Ptr entry = -1;  // whose row of B is not empty; one lane sees it
  for (Ptr e = (has_row ? f.a.row_ptr[row] : 0) + static_cast<Ptr>(lane); e < end; e += Ptr{kTeam}) {
    const Index k = f.a.col_idx[e];
    if (f.b.row_ptr[k] < f.b.row_ptr[k + 1]) entry = e;
  }
  for (unsigned d = kTeam / 2; d > 0; d /= 2) {
    entry = max(entry, __shfl_xor_sync(kAllLanes, entry, static_cast<int>(d), kTeam));
  }
  if (!has_row) return;
  const Index k = f.a.col_idx[entry];
  const T factor = f.a.values[entry];
  const Ptr from = f.b.row_ptr[k], to = f.b.row_ptr[k + 1];
  const Offset out = c.row_ptr[row] - c.base - from;
  for (Ptr q = from + static_cast<Ptr>(lane); q < to; q += Ptr{kTeam}) {
    c.col_idx[out + q] = f.b.col_idx[q];
    c.values[out + q] = factor * f.b.values[q];
  }
}

}  // namespace

template <class T, class Ptr>
void multiply_copied(const Factors<T, Ptr>& f, RowList list, const Output<T>& c, cudaStream_t stream) {
  launch(copy_rows<T, Ptr>,
         {.grid = blocks_for(list.count, kBlock / kTeam), .block = kBlock, .stream = stream}, f, list, c);
}

STAGES_FOR_VALUES_AND_POINTERS(multiply_copied)

}  // namespace stages::spgemm
