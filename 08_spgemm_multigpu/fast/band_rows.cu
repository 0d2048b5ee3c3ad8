// Rows of C in a range of at most 64 columns, as those of narrow bands: a thread a row.
//
// The idea: a bitmap of the whole range is one word, in a register, and its sums are a window of shared memory
// that no other thread needs. So nothing is sorted, searched or waited for, and a warp adds up 32 rows at once;
// a warp that took one row would leave idle the lanes beyond the few columns of a row of B.
//
//   expand   the thread walks along its rows of B; neighbours walk along neighbouring rows, so that what a line
//            brings is used from the cache
//   add up   the bit of a column says whether it has a sum already. Sums lie [column][thread]: no bank conflicts
//   write    a warp writes one row after the other: a lane's columns are those whose bits are set
//
// Input: rows in such a range. Cost: B's rows once when counting and once when multiplying, a thread each.

#include "08_spgemm_multigpu/fast/forms.hpp"
#include "08_spgemm_multigpu/fast/thread_walks.hpp"
#include "common/gpu/launch.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages::spgemm {
namespace {

using Bits = unsigned long long;
constexpr unsigned kBlock = 64;
constexpr unsigned kStride = kBlock + 1;
static_assert(kBandColumns == 8 * sizeof(Bits));

template <class Ptr>
__global__ void __launch_bounds__(kBlock)
    count_rows(Structures<Ptr> f, RowList list, const Index* first, Index* counts) {
  const Index row = row_of_thread(list);
  if (row < 0) return;
  const Index begin = first[row];
  Bits columns = 0;
  expand(
      f, row, [&](Ptr, Ptr at) { return f.b.col_idx[at]; },
      [&](unsigned, Index column) { columns |= Bits{1} << (column - begin); });
  counts[row] = __popcll(columns);
}

template <class T>
struct Term {
  Index column = 0;
  T factor = 0, value = 0;
};

template <class T, class Ptr>
__global__ void __launch_bounds__(kBlock)
    multiply_rows(Factors<T, Ptr> f, RowList list, const Index* first, Output<T> c) {
  T* const sums = dynamic_shared<T>();  // [column][thread]
  const unsigned me = threadIdx.x, lane = me % kWarp;
  const Index row = row_of_thread(list);
  const Index begin = row < 0 ? 0 : first[row];
  Bits columns = 0;
  expand(
      f.structures(), row,
      [&](Ptr e, Ptr at) {
        return Term<T>{f.b.col_idx[at], f.a.values[e], f.b.values[at]};
      },
      [&](unsigned, const Term<T>& product) {
        const auto k = static_cast<unsigned>(product.column - begin);
        T& sum = sums[k * kStride + me];
        sum = product.factor * product.value + (columns >> k & 1 ? sum : T{0});
        columns |= Bits{1} << k;
      });
  const Offset out = row < 0 ? 0 : c.row_ptr[row] - c.base;
  __syncwarp();
  for (unsigned r = 0; r < kWarp; ++r) {
    const Bits of_row = __shfl_sync(kAllLanes, columns, static_cast<int>(r));
    const Index from = __shfl_sync(kAllLanes, begin, static_cast<int>(r));
    const Offset to = __shfl_sync(kAllLanes, out, static_cast<int>(r));
    for (unsigned k = lane; k < kBandColumns && of_row >> k != 0; k += kWarp) {
      if ((of_row >> k & 1) == 0) continue;
      const Offset at = to + __popcll(of_row & ((Bits{1} << k) - 1));
      c.col_idx[at] = from + static_cast<Index>(k);
      c.values[at] = sums[k * kStride + me - lane + r];
    }
  }
}

}  // namespace

template <class Ptr>
void count_band(const Structures<Ptr>& f, RowList list, const Index* first, Index* counts,
                cudaStream_t stream) {
  launch(count_rows<Ptr>, {.grid = blocks_for(list.count, kBlock), .block = kBlock, .stream = stream}, f,
         list, first, counts);
}

template <class T, class Ptr>
void multiply_band(const Factors<T, Ptr>& f, RowList list, const Index* first, const Output<T>& c,
                   cudaStream_t stream) {
  constexpr std::size_t kBytes = kBandColumns * kStride * sizeof(T);
  static_assert(kBytes <= kLeastSharedBytes);
  launch(multiply_rows<T, Ptr>,
         {.grid = blocks_for(list.count, kBlock), .block = kBlock, .shared_bytes = kBytes, .stream = stream},
         f, list, first, c);
}

STAGES_FOR_POINTERS(count_band)
STAGES_FOR_VALUES_AND_POINTERS(multiply_band)

}  // namespace stages::spgemm
