#pragma once
// The kernels of the forms, as functions that launch them: count_* writes counts[row] for each row of the
// list, multiply_* the row's columns, ascending, and values. All are asynchronous on the stream, and ask for
// a list of rows whose facts fit the form (rules.hpp).

#include <algorithm>

#include "08_spgemm_multigpu/fast/rows.hpp"
#include "08_spgemm_multigpu/fast/rules.hpp"
#include "08_spgemm_multigpu/fast/shared_bytes.hpp"
#include "08_spgemm_multigpu/fast/words.hpp"
#include "common/gpu/launch.hpp"

namespace stages::spgemm {

/// copied_rows.cu. There is nothing to count: a row of C is a row of B.
template <class T, class Ptr>
void multiply_copied(const Factors<T, Ptr>& f, RowList list, const Output<T>& c, cudaStream_t stream);

/// merged_rows.cu; several blocks write a row, where the rows are few beside the device's multiprocessors.
template <class Ptr>
void count_merged(const Structures<Ptr>& f, RowList list, Index* counts, cudaStream_t stream);
template <class T, class Ptr>
void multiply_merged(const Factors<T, Ptr>& f, RowList list, int sms, const Output<T>& c,
                     cudaStream_t stream);

/// sorted_rows.cu; `form` is one of sorted_*.
template <class Ptr>
void count_sorted(const Structures<Ptr>& f, RowList list, Form form, Index* counts, cudaStream_t stream);
template <class T, class Ptr>
void multiply_sorted(const Factors<T, Ptr>& f, RowList list, Form form, const Output<T>& c,
                     cudaStream_t stream);

/// thread_rows.cu; `form` is threads_32 or threads_16.
template <class Ptr>
void count_by_threads(const Structures<Ptr>& f, RowList list, Form form, Index* counts, cudaStream_t stream);
template <class T, class Ptr>
void multiply_by_threads(const Factors<T, Ptr>& f, RowList list, Form form, const Output<T>& c,
                         cudaStream_t stream);

/// band_rows.cu. Row i has columns in first[i] .. first[i] + width[i] - 1, at most kBandColumns of them.
template <class Ptr>
void count_band(const Structures<Ptr>& f, RowList list, const Index* first, Index* counts,
                cudaStream_t stream);
template <class T, class Ptr>
void multiply_band(const Factors<T, Ptr>& f, RowList list, const Index* first, const Index* width,
                   const Output<T>& c, cudaStream_t stream);

/// narrow_rows.cu. Row i has columns in first[i] .. first[i] + width[i] - 1, which is at most `columns`.
template <class Ptr>
void count_narrow(const Structures<Ptr>& f, const Words<Ptr>& words, RowList list, const Index* first,
                  const Index* width, Index columns, Index* counts, cudaStream_t stream);
template <class T, class Ptr>
void multiply_narrow(const Factors<T, Ptr>& f, RowList list, const Index* first, const Index* width,
                     Index columns, Index most_results, const Output<T>& c, cudaStream_t stream);

/// Rows that a bitmap counted, cut into parts for multiplying, and these put together to spans whose ranks
/// and sums fit into a block's shared memory. The arrays are in device memory.
struct Parts {
  Index columns = 0;        ///< of a part
  Index most = 0;           ///< parts that a row can have
  Index* slot = nullptr;    ///< of row i: its number in `before`; negative: it is not cut
  Index* before = nullptr;  ///< [slot * most + part]: results of the row in the parts before, or, where a
                            ///< span begins, their complement (~)
  Index span_bytes = 0;     ///< of shared memory
  Index blocks = 0;         ///< with a span each that the device has at once; 0: spans are as wide as fits
  Index value_bytes = 0;

  /// Parts of a span, at most, where a bitmap counts `rows` rows: narrow spans of few rows give all SMs some.
  __device__ Index most_of_span(unsigned rows) const {
    return blocks == 0 ? most : max(Index{1}, static_cast<Index>(Offset{most} * rows / blocks));
  }
  __device__ Index* before_in(Index one_slot) const {
    return before + static_cast<std::size_t>(one_slot) * static_cast<std::size_t>(most);
  }
  __device__ const Index* before_of(Index row) const { return before_in(slot[row]); }
  /// Results before a part, from a number of `before`.
  static __device__ Index results(Index number) { return number < 0 ? ~number : number; }
  /// Where a part alone would not fit there are no spans.
  __device__ bool has_spans(Index row) const { return slot[row] >= 0 && before_of(row)[0] < 0; }
};

/// ranked_rows.cu. Row i has columns in first[i] .. first[i] + width[i] - 1; each needs ranked_bytes() of the
/// `block_bytes` of shared memory, or has spans, each of which needs parts.span_bytes at most.
template <class T, class Ptr>
void multiply_in_spans(const Factors<T, Ptr>& f, RowList list, const Index* first, const Index* width,
                       const Offset* products, const Rules& rules, const Parts& parts, const Output<T>& c,
                       cudaStream_t stream);
template <class T, class Ptr>
void multiply_ranked(const Factors<T, Ptr>& f, RowList list, const Index* first, const Index* width,
                     const Offset* products, const Rules& rules, Index block_bytes, const Output<T>& c,
                     cudaStream_t stream);

/// table_rows.cu: a warp a row, or a block of up to 16 warps a row; tables of that many slots.
template <class Ptr>
void count_in_warp_tables(const Structures<Ptr>& f, RowList list, Index slots, Index* counts,
                          cudaStream_t stream);
template <class Ptr>
void count_in_block_tables(const Structures<Ptr>& f, RowList list, Index slots, const Offset* products,
                           Index* counts, cudaStream_t stream);
template <class T, class Ptr>
void multiply_in_warp_tables(const Factors<T, Ptr>& f, RowList list, Index slots, const Output<T>& c,
                             cudaStream_t stream);
template <class T, class Ptr>
void multiply_in_block_tables(const Factors<T, Ptr>& f, RowList list, Index slots, Index warps,
                              const Output<T>& c, cudaStream_t stream);

/// window_rows.cu. Row i has columns in first[i] .. first[i] + width[i] - 1. Counting, by up to `blocks_a_row`
/// blocks, sets the slots of its rows, what comes before their parts, and their spans; `form` is windows or
/// small_windows.
template <class Ptr>
void count_in_bitmap(const Structures<Ptr>& f, const Words<Ptr>& words, RowList list, const Index* first,
                     const Index* width, Index bitmap_columns, Index blocks_a_row, Index* counts,
                     const Parts& parts, cudaStream_t stream);
template <class T, class Ptr>
void multiply_in_windows(const Factors<T, Ptr>& f, RowList list, Form form, const Index* first,
                         const Index* width, Index window_columns, const Parts& parts, const Output<T>& c,
                         cudaStream_t stream);

// Kernels with a block a row, or several. Where the host knows how many rows there are, a block has one.
// Where it does not (recorded.hpp), blocks for as many as there could be would take longer to find nothing
// than the others to work: there are fewer, and each takes one row after the other.

/// The blocks of a launch.
inline unsigned blocks_for_rows(const RowList& list, Index blocks_a_row = 1) {
  return std::min(blocks_for(Offset{list.count} * blocks_a_row, 1), list.most_blocks);
}

/// Calls take(row, part, number) for what is this block's: rows of the list, with their number in it, and parts
/// of them below `blocks_a_row`. The whole block meets after each.
template <class Take>
__device__ void take_rows(const RowList& list, unsigned blocks_a_row, Take take) {
  const unsigned all = list.size() * blocks_a_row;
  for (unsigned k = blockIdx.x; k < all; k += gridDim.x) {
    take(list.rows[k / blocks_a_row], k % blocks_a_row, static_cast<Index>(k / blocks_a_row));
    __syncthreads();
  }
}

}  // namespace stages::spgemm
