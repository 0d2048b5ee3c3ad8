#pragma once
// Who needs what from whom. A matrix or a vector lies on the ranks by rows; each rank has a list of the rows
// that it needs, its own among them. The ranks tell each other once what they need of each, and from then on
// each knows what to send to whom and where what it receives belongs.
//
// The list is sorted and the owners hold contiguous rows, so what comes from one owner is contiguous in the
// list: messages are received in place, and nothing is sorted or unpacked on arrival.

#include <mpi.h>

#include <span>

#include "common/matrix/types.hpp"
#include "common/mpi/deal.hpp"

namespace stages::mpi {

/// The rows among [0, rows) that occur as columns of a sparse matrix, and the matrix's columns renumbered to
/// places in that list. The order is kept, so sums over the columns of a row keep theirs.
class NeededRows {
 public:
  /// `columns`: the column indices of the matrix, all in [0, rows).
  void find(std::span<const Index> columns, Index rows);
  /// The rows alone, which takes less than half the time: compact_columns() is of no use then.
  void list(std::span<const Index> columns, Index rows);

  const Buffer<Index>& rows() const { return needed_; }              ///< ascending
  const Buffer<Index>& compact_columns() const { return compact_; }  ///< needed[compact[q]] = columns[q]

 private:
  Buffer<std::uint64_t> bits_;
  Buffer<std::uint8_t> marks_;
  Buffer<Index> before_;  ///< how many bits are set in the words before each
  Buffer<Index> needed_;
  Buffer<Index> compact_;
};

/// The exchange that a list of needed rows leads to.
struct Requests {
  /// needed[receive_bounds[r]] .. needed[receive_bounds[r + 1] - 1] are rows of rank r.
  std::vector<Offset> receive_bounds;
  /// send_rows[send_bounds[r]] .. are the rows, counted from this rank's first, that rank r needs.
  std::vector<Offset> send_bounds;
  Buffer<Index> send_rows;
};

/// Tells the owners. Collective.
void exchange_requests(std::span<const Index> needed, const RowBounds& owners, MPI_Comm comm, Requests& out);

}  // namespace stages::mpi
