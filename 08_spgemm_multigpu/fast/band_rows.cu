// Rows of C in a range of at most 64 columns, as those of narrow bands: four lanes a row.
//
// The idea: a bitmap of the whole range is one word, in a register, and the sums are a window of shared memory.
// Nothing is sorted or searched. A warp that took one row would leave most lanes without a column of its short
// rows of B; four lanes a row take four columns at once, and neighbouring rows, whose rows of B lie side by
// side, read from the same lines.
//
//   add up   one row of B after the other, so that no two lanes add to one sum
//   write    a warp writes one row after the other: a lane's columns are those whose bits are set
//
// A row of sums is 68 places apart from the next one: where eight rows add to the same columns of their ranges,
// as in a band, their lanes meet no bank twice.
//
// Input: rows in such a range. Cost: B's rows once when counting and once when multiplying.

#include "08_spgemm_multigpu/fast/forms.hpp"
#include "common/gpu/launch.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages::spgemm {
namespace {

using Bits = unsigned long long;
constexpr unsigned kBlock = 128;
constexpr unsigned kTeam = kBandLanes;
constexpr unsigned kRows = kBlock / kTeam;  ///< of a block
constexpr unsigned kStride = kBandColumns + kTeam;
static_assert(kBandColumns == 8 * sizeof(Bits));

/// The row of a team; -1: none.
__device__ inline Index row_of_team(RowList list) {
  return list.row(blockIdx.x * kRows + threadIdx.x / kTeam);
}

/// Calls visit(non-zero of A, position in B) for this lane's part of a row's products (row < 0: none); between
/// two rows of B the warp meets. All lanes come. A lane looks up every fourth row of B for its team.
template <class Ptr, class Visit>
__device__ void walk_by_teams(const Structures<Ptr>& f, Index row, Visit visit) {
  const Ptr lane = static_cast<Ptr>(threadIdx.x % kTeam);
  const Ptr end = row < 0 ? 0 : f.a.row_ptr[row + 1];
  for (Ptr first = row < 0 ? 0 : f.a.row_ptr[row]; __any_sync(kAllLanes, first < end);
       first += first < end ? Ptr{kTeam} : Ptr{0}) {
    const Index k = first + lane < end ? f.a.col_idx[first + lane] : -1;
    const Ptr mine_from = k < 0 ? 0 : f.b.row_ptr[k], mine_to = k < 0 ? 0 : f.b.row_ptr[k + 1];
#pragma unroll
    for (int s = 0; s < static_cast<int>(kTeam); ++s) {
      const Ptr from = __shfl_sync(kAllLanes, mine_from, s, kTeam);
      const Ptr to = __shfl_sync(kAllLanes, mine_to, s, kTeam);
      for (Ptr at = from + lane; at < to; at += Ptr{kTeam}) visit(first + static_cast<Ptr>(s), at);
      __syncwarp();
    }
  }
}

__device__ inline Bits over_team(Bits bits) {
  for (unsigned d = kTeam / 2; d > 0; d /= 2) bits |= __shfl_xor_sync(kAllLanes, bits, static_cast<int>(d));
  return bits;
}

template <class Ptr>
__global__ void __launch_bounds__(kBlock)
    count_rows(Structures<Ptr> f, RowList list, const Index* first, Index* counts) {
  const Index row = row_of_team(list);
  const Index begin = row < 0 ? 0 : first[row];
  Bits columns = 0;
  walk_by_teams(f, row, [&](Ptr, Ptr at) { columns |= Bits{1} << (f.b.col_idx[at] - begin); });
  columns = over_team(columns);
  if (row >= 0 && threadIdx.x % kTeam == 0) counts[row] = __popcll(columns);
}

template <class T, class Ptr>
__global__ void __launch_bounds__(kBlock)
    multiply_rows(Factors<T, Ptr> f, RowList list, const Index* first, const Index* width, Output<T> c) {
  __shared__ T sums[kRows][kStride];
  const unsigned me = threadIdx.x, lane = me % kWarp;
  const Index row = row_of_team(list);
  const Index begin = row < 0 ? 0 : first[row], range = row < 0 ? 0 : width[row];
  T* const mine = sums[me / kTeam];
  for (Index k = static_cast<Index>(me % kTeam); k < range; k += Index{kTeam}) mine[k] = T{0};
  __syncwarp();
  Bits columns = 0;
  walk_by_teams(f.structures(), row, [&](Ptr entry, Ptr at) {
    const Index k = f.b.col_idx[at] - begin;
    mine[k] += f.a.values[entry] * f.b.values[at];
    columns |= Bits{1} << k;
  });
  columns = over_team(columns);
  const Offset out = row < 0 ? 0 : c.row_ptr[row] - c.base;
  for (unsigned r = 0; r < kWarp; r += kTeam) {
    const Bits of_row = __shfl_sync(kAllLanes, columns, static_cast<int>(r));
    const Index from = __shfl_sync(kAllLanes, begin, static_cast<int>(r));
    const Offset to = __shfl_sync(kAllLanes, out, static_cast<int>(r));
    for (unsigned k = lane; k < kBandColumns && of_row >> k != 0; k += kWarp) {
      if ((of_row >> k & 1) == 0) continue;
      const Offset at = to + __popcll(of_row & ((Bits{1} << k) - 1));
      c.col_idx[at] = from + static_cast<Index>(k);
      c.values[at] = sums[(me - lane + r) / kTeam][k];
    }
  }
}

}  // namespace

template <class Ptr>
void count_band(const Structures<Ptr>& f, RowList list, const Index* first, Index* counts,
                cudaStream_t stream) {
  launch(count_rows<Ptr>, {.grid = blocks_for(list.count, kRows), .block = kBlock, .stream = stream}, f, list,
         first, counts);
}

template <class T, class Ptr>
void multiply_band(const Factors<T, Ptr>& f, RowList list, const Index* first, const Index* width,
                   const Output<T>& c, cudaStream_t stream) {
  launch(multiply_rows<T, Ptr>, {.grid = blocks_for(list.count, kRows), .block = kBlock, .stream = stream}, f,
         list, first, width, c);
}

STAGES_FOR_POINTERS(count_band)
STAGES_FOR_VALUES_AND_POINTERS(multiply_band)

}  // namespace stages::spgemm
