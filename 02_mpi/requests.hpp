#pragma once
// Who needs what from whom, as 5_distributed.cpp explains and defines it. A matrix or a vector lies on the
// ranks by rows; each rank has a list of the rows that it needs, its own among them.

#include <mpi.h>

#include <algorithm>
#include <span>

#include "common/mpi/communicator.hpp"
#include "common/mpi/deal.hpp"
#include "common/mpi/transfer.hpp"

namespace stages::mpi {

/// The rows that occur as columns of a sparse matrix, ascending, and the matrix's columns as places in that
/// list: rows[places[q]] = columns[q]. The order is kept, so sums over the columns of a row keep theirs.
struct NeededRows {
  Buffer<Index> rows, places;
};
/// `columns`: of all non-zeros, in [0, rows).
NeededRows needed_rows(std::span<const Index> columns, Index rows);

/// The exchange that a list of needed rows leads to. The list ascends, and the owners hold contiguous rows:
/// what comes from one owner is contiguous in the list, and is received in place.
struct Requests {
  /// needed[receive_bounds[r]] .. needed[receive_bounds[r + 1] - 1] are rows of rank r.
  std::vector<Offset> receive_bounds;
  /// send_rows[send_bounds[r]] .. are the rows, counted from this rank's first, that rank r needs.
  std::vector<Offset> send_bounds;
  Buffer<Index> send_rows;
};
/// Tells the owners, row owners[r] .. of which rank r holds. Collective.
Requests exchange_requests(std::span<const Index> needed, const RowBounds& owners, MpiCommunicator& ranks);

/// out[out_bounds[r]] .. goes to rank r, and what comes from it to in[in_bounds[r]] .. Collective. The other
/// ranks first, each beginning with the next one, so that not all of them wait for rank 0.
template <class Value>
void exchange(const Value* out, std::span<const Offset> out_bounds, Value* in,
              std::span<const Offset> in_bounds, MpiCommunicator& ranks) {
  Transfers transfers(ranks.comm());
  for (int step = 1; step <= ranks.size(); ++step) {
    const int rank = (ranks.rank() + step) % ranks.size();
    const auto r = static_cast<std::size_t>(rank);
    const Offset sent = out_bounds[r + 1] - out_bounds[r], received = in_bounds[r + 1] - in_bounds[r];
    if (rank == ranks.rank()) {
      std::copy_n(out + out_bounds[r], sent, in + in_bounds[r]);
    } else {
      transfers.receive(in + in_bounds[r], received, rank);
      transfers.send(out + out_bounds[r], sent, rank);
    }
  }
  transfers.wait();
}

}  // namespace stages::mpi
