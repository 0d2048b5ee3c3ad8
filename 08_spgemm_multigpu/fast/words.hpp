#pragma once
// B in words, to count: where columns lie side by side, a word of 32 columns says as much as many of them.
//
// In a band, a mesh of finite elements or a pruned layer a row of B has 3 to 30 columns in each word that it
// touches. To count the results of a row of C, all that matters is which columns come, so a bitmap is made by
// an atomicOr for each word, not for each product. The words are made anew in each product, from B's columns.

#include "08_spgemm_multigpu/fast/rules.hpp"
#include "08_spgemm_multigpu/fast/walks_at_once.hpp"
#include "common/gpu/memory.hpp"
#include "common/harness/problem.hpp"

namespace stages::spgemm {

/// Row k has items b.row_ptr[k] .. ends[k] - 1: x is column / 32, ascending, y the columns there, bit by bit.
template <class Ptr>
struct Words {
  const uint2* items = nullptr;  ///< null: there are none, and B's columns are to be taken
  const Ptr* ends = nullptr;

  __device__ Piece<Ptr> piece(const Structure<Ptr>& b, Index row) const {
    return {b.row_ptr[row], ends[row]};
  }
};

/// Whether it is worth it: a row has more products than are sorted, there are rules.word_products products and
/// rules.products_a_word_entry for each non-zero of B; and a word of B has rules.entries_a_word columns in the
/// mean, or more (a thousand rows are looked at). A narrow row that could be sorted is not reason enough. And
/// no row of B has more than rules.most_word_row columns: a warp makes the words of a row, and with one of
/// 100,000 columns that took an H100 1.7 ms.
template <class T>
bool has_words(const SpgemmProblem<T>& problem, const Rules& rules);

/// Device memory for them, in bytes; 0 without.
template <class T>
double words_bytes(const SpgemmProblem<T>& problem) {
  if (!has_words(problem, Rules{})) return 0;
  return sizeof(uint2) * static_cast<double>(problem.b->nnz()) + sizeof(Offset) * (problem.b->rows + 1.0);
}

/// Makes the words. `items`: nnz(B) of them; `ends`: one a row. Asynchronous on the stream.
template <class Ptr>
void make_words(const Structure<Ptr>& b, uint2* items, Ptr* ends, cudaStream_t stream);

/// Calls visit({column / 32, columns there}) for the words of the rows of B that row `row` of A names, in any
/// order and several rows of B at once. With all lanes of a warp.
template <class Ptr, class Visit>
__device__ void walk_words(const Structures<Ptr>& f, const Words<Ptr>& words, Index row, unsigned lane,
                           Visit visit) {
  walk_at_once<1>(
      f.a, row, 0, 1, lane, [&](Index k) { return words.piece(f.b, k); },
      [&](Ptr q) { return words.items[q]; }, visit);
}

}  // namespace stages::spgemm
