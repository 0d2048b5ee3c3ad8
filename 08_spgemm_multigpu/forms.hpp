#pragma once
// The kernels of the forms, as functions that launch them: count_* writes counts[row] for each row of the
// list, multiply_* the row's columns, ascending, and values. All are asynchronous on the stream, and ask for
// a list of rows whose facts fit the form (rules.hpp).

#include "08_spgemm_multigpu/rows.hpp"
#include "08_spgemm_multigpu/rules.hpp"

namespace stages::spgemm {

/// copied_rows.cu; `form` is copy_short or copy_long. There is nothing to count: a row of C is a row of B.
template <class T, class Ptr>
void multiply_copied(const Factors<T, Ptr>& f, RowList list, Form form, const Output<T>& c,
                     cudaStream_t stream);

/// sorted_rows.cu; `form` is one of sort_*.
template <class Ptr>
void count_sorted(const Structures<Ptr>& f, RowList list, Form form, Index* counts, cudaStream_t stream);
template <class T, class Ptr>
void multiply_sorted(const Factors<T, Ptr>& f, RowList list, Form form, const Output<T>& c,
                     cudaStream_t stream);

/// narrow_rows.cu. The range of row i begins at column first[i] and takes at most `columns`.
template <class Ptr>
void count_narrow(const Structures<Ptr>& f, RowList list, const Index* first, Index columns, Index* counts,
                  cudaStream_t stream);
template <class T, class Ptr>
void multiply_narrow(const Factors<T, Ptr>& f, RowList list, const Index* first, const Index* width,
                     Index columns, Index most_results, const Output<T>& c, cudaStream_t stream);

/// table_rows.cu: a warp a row, or a block a row; tables of that many slots.
template <class Ptr>
void count_in_warp_tables(const Structures<Ptr>& f, RowList list, Index slots, Index* counts,
                          cudaStream_t stream);
template <class Ptr>
void count_in_block_tables(const Structures<Ptr>& f, RowList list, Index slots, Index* counts,
                           cudaStream_t stream);
template <class T, class Ptr>
void multiply_in_warp_tables(const Factors<T, Ptr>& f, RowList list, Index slots, const Output<T>& c,
                             cudaStream_t stream);
template <class T, class Ptr>
void multiply_in_block_tables(const Factors<T, Ptr>& f, RowList list, Index slots, const Output<T>& c,
                              cudaStream_t stream);
/// Bytes of shared memory of a block with one table of that many slots.
template <class T>
constexpr std::size_t block_table_bytes(Index slots) {
  return static_cast<std::size_t>(slots) * (sizeof(T) + sizeof(Index)) +
         static_cast<std::size_t>(slots) / 2 * sizeof(Index);
}

/// window_rows.cu. Row i has columns in first[i] .. first[i] + width[i] - 1.
template <class Ptr>
void count_in_bitmap(const Structures<Ptr>& f, RowList list, const Index* first, const Index* width,
                     Index bitmap_columns, Index* counts, cudaStream_t stream);
template <class T, class Ptr>
void multiply_in_windows(const Factors<T, Ptr>& f, RowList list, const Index* first, const Index* width,
                         Index window_columns, const Output<T>& c, cudaStream_t stream);

}  // namespace stages::spgemm
