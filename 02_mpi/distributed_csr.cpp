#include "02_mpi/distributed_csr.hpp"

#include <algorithm>
#include <numeric>

#include "common/mpi/check.hpp"
#include "common/mpi/clocks.hpp"
#include "common/mpi/transfer.hpp"

namespace stages::mpi {
namespace {

std::size_t rank_in(MPI_Comm comm) {
  int rank = 0;
  check(MPI_Comm_rank(comm, &rank), "asking for the rank");
  return static_cast<std::size_t>(rank);
}

}  // namespace

template <class T>
void RowFetcher<T>::fetch(std::span<const Index> a_columns, const DistributedCsr<T>& b) {
  renumbers_ = std::ssize(a_columns) < b.bounds.back();
  renumbers_ ? needed_.find(a_columns, b.bounds.back()) : needed_.list(a_columns, b.bounds.back());
  exchange_requests(needed_.rows(), b.bounds, comm_, requests_);
  exchange_lengths(b);
  exchange_entries(b);
}

/// After this rows_ has its row pointers, and its arrays have room.
template <class T>
void RowFetcher<T>::exchange_lengths(const DistributedCsr<T>& b) {
  const std::size_t ranks = b.bounds.size() - 1, me = rank_in(comm_);
  send_lengths_.resize(requests_.send_rows.size());
  packed_bounds_.assign(ranks + 1, 0);
  for (std::size_t r = 0; r < ranks; ++r) {
    Offset entries = 0;
    for (auto s = static_cast<std::size_t>(requests_.send_bounds[r]);
         s < static_cast<std::size_t>(requests_.send_bounds[r + 1]); ++s) {
      const auto length = static_cast<Index>(b.mine.row_nnz(requests_.send_rows[s]));
      send_lengths_[s] = length;
      entries += length;
    }
    packed_bounds_[r + 1] = packed_bounds_[r] + entries;
  }
  receive_lengths_.resize(needed_.rows().size());
  Transfers transfers(comm_);
  for (std::size_t r = 0; r < ranks; ++r) {
    const Offset in = requests_.receive_bounds[r], out = requests_.send_bounds[r];
    if (r == me) {
      std::copy_n(send_lengths_.data() + out, requests_.send_bounds[r + 1] - out,
                  receive_lengths_.data() + in);
    } else {
      transfers.receive(receive_lengths_.data() + in, requests_.receive_bounds[r + 1] - in,
                        static_cast<int>(r));
      transfers.send(send_lengths_.data() + out, requests_.send_bounds[r + 1] - out, static_cast<int>(r));
    }
  }
  transfers.wait();
  rows_.rows = renumbers_ ? static_cast<Index>(receive_lengths_.size()) : b.bounds.back();
  rows_.cols = b.mine.cols;
  rows_.row_ptr.assign(static_cast<std::size_t>(rows_.rows) + 1, 0);
  for (std::size_t i = 0; i < receive_lengths_.size(); ++i)
    rows_.row_ptr[(renumbers_ ? i : static_cast<std::size_t>(needed_.rows()[i])) + 1] = receive_lengths_[i];
  std::partial_sum(rows_.row_ptr.begin(), rows_.row_ptr.end(), rows_.row_ptr.begin());
  rows_.col_idx.resize(static_cast<std::size_t>(rows_.row_ptr.back()));
  rows_.values.resize(rows_.col_idx.size());
}

/// True where rank `rank` needs neighbouring rows, so that they can be sent from where they are.
template <class T>
bool RowFetcher<T>::sends_in_place(std::size_t rank) const {
  const Offset first = requests_.send_bounds[rank], last = requests_.send_bounds[rank + 1];
  if (first == last) return true;
  const Buffer<Index>& rows = requests_.send_rows;
  return rows[static_cast<std::size_t>(last - 1)] - rows[static_cast<std::size_t>(first)] == last - 1 - first;
}

template <class T>
void RowFetcher<T>::exchange_entries(const DistributedCsr<T>& b) {
  const std::size_t ranks = b.bounds.size() - 1, me = rank_in(comm_);
  packed_columns_.resize(static_cast<std::size_t>(packed_bounds_.back()));
  packed_values_.resize(packed_columns_.size());
  Transfers transfers(comm_);
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r == me) continue;
    const Offset first = entries_from(r, b), count = entries_from(r + 1, b) - first;
    transfers.receive(rows_.col_idx.data() + first, count, static_cast<int>(r));
    transfers.receive(rows_.values.data() + first, count, static_cast<int>(r));
  }
  // The other ranks first, each beginning with the next one, so that not all of them wait for rank 0; the
  // copy of this rank's own rows is made while messages travel.
  for (std::size_t step = 1; step <= ranks; ++step) {
    const std::size_t r = (me + step) % ranks;
    const Offset begin = requests_.send_bounds[r], end = requests_.send_bounds[r + 1];
    const Offset count = packed_bounds_[r + 1] - packed_bounds_[r];
    const Index* columns = packed_columns_.data() + packed_bounds_[r];
    const T* values = packed_values_.data() + packed_bounds_[r];
    if (r != me && begin < end && sends_in_place(r)) {
      const auto row = static_cast<std::size_t>(requests_.send_rows[static_cast<std::size_t>(begin)]);
      columns = b.mine.col_idx.data() + b.mine.row_ptr[row];
      values = b.mine.values.data() + b.mine.row_ptr[row];
    } else {
      const Offset own = entries_from(me, b);
      Index* to_columns = r == me ? rows_.col_idx.data() + own : packed_columns_.data() + packed_bounds_[r];
      T* to_values = r == me ? rows_.values.data() + own : packed_values_.data() + packed_bounds_[r];
      for (Offset s = begin; s < end; ++s) {
        const auto row = static_cast<std::size_t>(requests_.send_rows[static_cast<std::size_t>(s)]);
        const Offset from = b.mine.row_ptr[row], length = b.mine.row_ptr[row + 1] - from;
        to_columns = std::copy_n(b.mine.col_idx.data() + from, length, to_columns);
        to_values = std::copy_n(b.mine.values.data() + from, length, to_values);
      }
    }
    if (r == me) continue;
    transfers.send(columns, count, static_cast<int>(r));
    transfers.send(values, count, static_cast<int>(r));
  }
  transfers.wait();
}

template <class T>
double DistributedProduct<T>::multiply(const DistributedCsr<T>& a, const DistributedCsr<T>& b,
                                       DistributedCsr<T>& c, Exec& exec) {
  {
    Phase phase(exec, "exchange");
    fetcher_.fetch(a.mine.col_idx, b);
  }
  Phase phase(exec, "compute");
  const auto start = std::chrono::steady_clock::now();
  c.bounds = a.bounds;
  CsrView<T> mine = a.mine.view();
  mine.col_idx = fetcher_.a_columns(mine.col_idx);
  mine.cols = fetcher_.view().rows;
  rows_.reserve(mine, fetcher_.view(), c.mine);
  rows_.fill(mine, fetcher_.view(), c.mine);
  return seconds_since(start);
}

template class RowFetcher<float>;
template class RowFetcher<double>;
template class DistributedProduct<float>;
template class DistributedProduct<double>;

}  // namespace stages::mpi
