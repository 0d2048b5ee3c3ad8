#pragma once
// Rows of A so long that one block would be busy with each of them when all other rows of C are done: A's
// non-zeros of such a row are cut into sections, and what the sections give is added up.

#include <memory>
#include <vector>

#include "08_spgemm_multigpu/fast/binned.hpp"
#include "common/gpu/memory.hpp"

namespace stages::spgemm {

template <class T>
struct Output;  // rows.hpp

struct RowsToSplit {
  std::vector<Index> rows;  ///< of A, ascending
  Offset entries = 0;       ///< of A, of all of them
  Offset products = 0;      ///< likewise
};

/// The rows of A that are to be split: those with more than rules.long_row non-zeros, if they are few, and name
/// short rows of B. (Long rows of B keep all lanes of a block busy.)
template <class T>
RowsToSplit rows_to_split(const Csr<T>& a, const Csr<T>& b, const Rules& rules);

/// C's rows for those, as S (P B). P has a row for each section of up to rules.section_entries non-zeros of a
/// row of A, and S a row for each row that is split, with a 1 for each of its sections. Both are products as
/// all others are: the sections are rows of a length that binned.cu is good at, and to add them up is a row of
/// few non-zeros that name long rows. So the structures and the device decide the order of a sum: the same bits
/// in each run. Memory: P B.
template <class T>
class SplitRows {
 public:
  /// `b`: in device memory; its arrays live longer than this. `settings`: for both products.
  template <class Ptr>
  SplitRows(const Csr<T>& a, const RowsToSplit& long_rows, const CsrView<T, Ptr>& b, Exec& exec,
            Settings settings);

  /// All of A's values, on the host.
  void load(const Buffer<T>& a_values);
  void reset();

  /// P B, and the results of the rows.
  void count();
  /// The rows. P B again, but the first time after count().
  void multiply();

  Index size() const { return static_cast<Index>(rows_.size()); }
  /// Writes counts[row] for the rows. After count().
  void put_counts(Index* counts, cudaStream_t stream);
  /// Copies those of rows first_row .. end_row - 1 to where they belong in C. After multiply().
  void put_rows(Index first_row, Index end_row, const Output<T>& c, cudaStream_t stream);

 private:
  void make_sections();

  std::vector<Index> rows_;
  std::vector<Offset> begins_, ends_;  ///< of the rows, in A's values
  DeviceArray<Index> on_device_;       ///< rows_
  std::unique_ptr<BinnedPlan<T>> sections_, sums_;
  bool made_ = false;  ///< P B is of the values that are loaded, and not used yet
};

/// Device memory for the split rows of a product, in bytes.
template <class T>
double split_bytes(const SpgemmProblem<T>& problem);

}  // namespace stages::spgemm
