#pragma once
// A sparse matrix that lies on the ranks by rows, and its product with another one.

#include "02_mpi/requests.hpp"
#include "common/harness/exec.hpp"
#include "common/kernels/spgemm_rows.hpp"
#include "common/mpi/deal.hpp"

namespace stages::mpi {

/// Rank r holds rows bounds[r] .. bounds[r + 1] - 1, with global column numbers.
template <class T>
struct DistributedCsr {
  RowBounds bounds;  ///< the same on all ranks
  Csr<T> mine;       ///< row 0 is row bounds[rank]
};

/// Rows of B that this rank's columns of A name, as a matrix of its own. Where A has fewer non-zeros here than
/// B has rows it holds these rows alone, and A's columns are renumbered; else, as when A fills in, that would
/// cost more than it saves: it has all rows of B, the others empty. Everything that is fetched is fetched again
/// at the next call; the memory is kept.
template <class T>
class RowFetcher {
 public:
  explicit RowFetcher(MPI_Comm comm) : comm_(comm) {}

  /// Collective. `a_columns` are the column indices of this rank's rows of A.
  void fetch(std::span<const Index> a_columns, const DistributedCsr<T>& b);

  CsrView<T> view() const { return rows_.view(); }
  /// The columns of A, as they were given, in the numbering of view().
  const Index* a_columns(const Index* given) const {
    return renumbers_ ? needed_.compact_columns().data() : given;
  }

 private:
  void exchange_lengths(const DistributedCsr<T>& b);
  void exchange_entries(const DistributedCsr<T>& b);
  bool sends_in_place(std::size_t rank) const;
  /// Where the non-zeros of rank `rank` begin in rows_.
  Offset entries_from(std::size_t rank, const DistributedCsr<T>& b) const {
    const Offset row = renumbers_ ? requests_.receive_bounds[rank] : b.bounds[rank];
    return rows_.row_ptr[static_cast<std::size_t>(row)];
  }

  MPI_Comm comm_;
  bool renumbers_ = true;
  NeededRows needed_;
  Requests requests_;
  Csr<T> rows_;
  std::vector<Offset> packed_bounds_;  ///< where the non-zeros for each rank begin in the packed arrays
  Buffer<Index> send_lengths_;
  Buffer<Index> receive_lengths_;
  Buffer<Index> packed_columns_;
  Buffer<T> packed_values_;
};

/// C = A B with all three by rows; C has the rows of A on the same ranks. Each rank fetches the rows of B
/// that its columns of A name, and no others. C can be the next product's A: no matrix is whole anywhere.
template <class T>
class DistributedProduct {
 public:
  /// `cols`: columns of B.
  DistributedProduct(MPI_Comm comm, Index cols) : fetcher_(comm), rows_(cols) {}

  /// Collective. Phases "exchange" and "compute" of `exec`; returns the seconds of this rank's own work. C
  /// has the very bits that one process would compute.
  double multiply(const DistributedCsr<T>& a, const DistributedCsr<T>& b, DistributedCsr<T>& c, Exec& exec);

 private:
  RowFetcher<T> fetcher_;
  kernels::SpgemmRows<T> rows_;
};

}  // namespace stages::mpi
