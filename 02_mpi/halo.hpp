#pragma once
// A matrix by rows on the ranks, ready to be multiplied by dense vectors that lie on the ranks too: which
// elements of x (or rows of B) a rank lacks is found out once, in prepare, because A does not change. It is
// 6_spmv_halo.cpp's, for the rungs from there on.

#include "02_mpi/requests.hpp"
#include "common/mpi/spgemm_plan.hpp"
#include "common/mpi/transfer.hpp"

namespace stages::mpi {

/// A's rows on this rank, their columns renumbered to places in the list of needed rows of the dense operand.
template <class T>
class HaloMatrix {
 public:
  /// Collective. Rank 0 holds A and deals its rows by nnz; the rows of the dense operand are dealt like A's
  /// where A is square, else evenly.
  HaloMatrix(const Csr<T>* whole, MpiCommunicator& ranks);

  const Csr<T>& mine() const { return mine_; }                     ///< columns are places in the list
  const RowBounds& rows() const { return rows_; }                  ///< how A's rows are dealt
  const RowBounds& operand_rows() const { return operand_rows_; }  ///< and those of the operand
  Index first_row() const { return rows_[me_]; }
  Index operand_count() const { return operand_rows_[me_ + 1] - operand_rows_[me_]; }
  Index needed() const { return mine_.cols; }
  Index whole_rows() const { return rows_.back(); }
  double imbalance() const { return imbalance_; }  ///< of nnz; the same on all ranks

  /// Brings rows of `width` elements from where they are to where they are needed: `own` holds this rank's
  /// rows of the operand, `halo` gets the needed ones, needed() x width. Collective.
  void exchange(const T* own, Index width, T* halo) {
    start_exchange(own, width, halo);
    finish_exchange();
  }
  /// The two halves of it. Between them this rank's own rows are in `halo` already, and the others are not;
  /// `own` may be written, `halo` must stay.
  void start_exchange(const T* own, Index width, T* halo);
  void finish_exchange() { transfers_.wait(); }

  /// Whether row `i` of mine() needs no other rank's rows.
  bool at_home(Index i) const;

 private:
  MpiCommunicator& ranks_;
  std::size_t me_;
  Csr<T> mine_;
  RowBounds rows_, operand_rows_;
  Requests requests_;
  double imbalance_ = 1;
  Buffer<T> packed_;  // what others need, on its way
  Transfers transfers_;
};

}  // namespace stages::mpi
