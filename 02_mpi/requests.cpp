#include "02_mpi/requests.hpp"

#include <algorithm>

#include "common/kernels/bitmap.hpp"
#include "common/mpi/check.hpp"
#include "common/mpi/transfer.hpp"

namespace stages::mpi {

void NeededRows::find(std::span<const Index> columns, Index rows) {
  bits_.assign(bitmap::words(rows), 0);
  for (const Index k : columns) bits_[bitmap::word_of(k)] |= bitmap::bit_of(k);
  before_.resize(bits_.size());
  Index count = 0;
  for (std::size_t w = 0; w < bits_.size(); ++w) {
    before_[w] = count;
    count += std::popcount(bits_[w]);
  }
  needed_.resize(static_cast<std::size_t>(count));
  auto next = needed_.begin();
  for (std::size_t w = 0; w < bits_.size(); ++w)
    bitmap::for_each_bit(bits_[w], w, [&](Index row) { *next++ = row; });
  compact_.resize(columns.size());
  for (std::size_t q = 0; q < columns.size(); ++q) {
    const std::size_t w = bitmap::word_of(columns[q]);
    const bitmap::Word below = bits_[w] & (bitmap::bit_of(columns[q]) - 1);
    compact_[q] = before_[w] + std::popcount(below);
  }
}

void NeededRows::list(std::span<const Index> columns, Index rows) {
  marks_.assign(static_cast<std::size_t>(rows), 0);
  for (const Index k : columns)
    marks_[static_cast<std::size_t>(k)] = 1;  // a store, where a bit takes a load, too
  needed_.clear();
  for (Index row = 0; row < rows; ++row)
    if (marks_[static_cast<std::size_t>(row)] != 0) needed_.push_back(row);
}

void exchange_requests(std::span<const Index> needed, const RowBounds& owners, MPI_Comm comm, Requests& out) {
  const std::size_t ranks = owners.size() - 1;
  int me = 0;
  check(MPI_Comm_rank(comm, &me), "asking for the rank");
  out.receive_bounds.resize(ranks + 1);
  for (std::size_t r = 0; r <= ranks; ++r)
    out.receive_bounds[r] = std::lower_bound(needed.begin(), needed.end(), owners[r]) - needed.begin();
  std::vector<Offset> counts(ranks);
  for (std::size_t r = 0; r < ranks; ++r) counts[r] = out.receive_bounds[r + 1] - out.receive_bounds[r];
  const std::vector<Offset> wanted = all_to_all(counts, comm);
  out.send_bounds.assign(ranks + 1, 0);
  for (std::size_t r = 0; r < ranks; ++r) out.send_bounds[r + 1] = out.send_bounds[r] + wanted[r];
  out.send_rows.resize(static_cast<std::size_t>(out.send_bounds.back()));
  Transfers transfers(comm);
  for (std::size_t r = 0; r < ranks; ++r) {
    const int rank = static_cast<int>(r);
    if (rank == me) {
      std::copy_n(needed.data() + out.receive_bounds[r], counts[r],
                  out.send_rows.data() + out.send_bounds[r]);
    } else {
      transfers.receive(out.send_rows.data() + out.send_bounds[r], wanted[r], rank);
      transfers.send(needed.data() + out.receive_bounds[r], counts[r], rank);
    }
  }
  transfers.wait();
  const Index first = owners[static_cast<std::size_t>(me)];
  for (Index& row : out.send_rows) row -= first;
}

}  // namespace stages::mpi
