#pragma once
// The first step of binned.cu: what is known of each row of C before its results are counted.

#include "08_spgemm_multigpu/fast/rules.hpp"
#include "08_spgemm_multigpu/rows.hpp"

namespace stages::spgemm {

/// What is known of each row of C, in device memory.
struct Facts {
  Offset* products = nullptr;
  Index* first = nullptr;  ///< the first column that any product has, if `width` is not 0
  Index* width = nullptr;  ///< from there to the last one; may be 0 where there are few products
  Form* form = nullptr;    ///< the counting form
  Index* counts = nullptr;
  Index* slot = nullptr;  ///< of Parts; the counting pass gives some rows one
};

/// How many lanes should look at a row of A, 1 to 32 or a block's 256: `lanes` below. Rows of more than
/// `longest` entries do not count.
template <class T>
unsigned lanes_for(const Csr<T>& a, Index longest);

/// Writes the facts of each row, and counts of a row that has one row of B; adds to the tally how many rows
/// have each form. Asynchronous on the stream.
template <class Ptr>
void analyse_rows(const Structures<Ptr>& f, const Rules& rules, unsigned lanes, const Facts& facts,
                  Index* tally, cudaStream_t stream);

}  // namespace stages::spgemm
