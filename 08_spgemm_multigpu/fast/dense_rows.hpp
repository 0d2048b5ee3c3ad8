#pragma once
// Long rows of A where C has few columns: a linear program's coupling rows, or all of a wide matrix, times its
// transpose. One block would be busy with such a row when all others are done. Here a row's non-zeros are cut
// into sections, a block each; and as a row of C fits into shared memory as it is, each warp adds its products
// in a dense row of its own. The last block of a row to arrive adds up what the sections left, in their order:
// the structures and the device decide it, so the bits are the same in each run.

#include <vector>

#include "08_spgemm_multigpu/fast/rows.hpp"
#include "08_spgemm_multigpu/fast/rules.hpp"
#include "common/gpu/memory.hpp"

namespace stages::spgemm {

/// The rows of A that are so multiplied: those with more than `longer_than` non-zeros.
struct RowsAsDense {
  std::vector<Index> rows;  ///< ascending; empty: none are
  Index longer_than = 0;
  Offset most_entries = 0;  ///< of one
};

/// None if a row of C is too wide, or rows of B are so long that one block is busy with each.
template <class T>
RowsAsDense rows_as_dense(const Csr<T>& a, const Csr<T>& b, const Rules& rules);

template <class T>
class DenseRows {
 public:
  DenseRows() = default;
  DenseRows(const RowsAsDense& rows, Index cols);

  static double bytes(const RowsAsDense& rows, Index cols);
  bool empty() const { return size() == 0; }
  std::size_t size() const { return rows_.size(); }
  /// Asynchronous, as all here. Writes counts[row] for the rows.
  template <class Ptr>
  void count(const Structures<Ptr>& f, Index* counts, cudaStream_t stream);
  /// Those of rows first_row .. end_row - 1. After count().
  template <class Ptr>
  void multiply(const Factors<T, Ptr>& f, Index first_row, Index end_row, const Output<T>& c,
                cudaStream_t stream);

 private:
  unsigned sections_ = 0;
  DeviceArray<Index> rows_;
  DeviceArray<unsigned> bits_;     ///< of each row, a bit for each column of C
  DeviceArray<T> partial_;         ///< of each section, a sum for each column of C
  DeviceArray<unsigned> arrived_;  ///< sections of each row; 0 between products
};

}  // namespace stages::spgemm
