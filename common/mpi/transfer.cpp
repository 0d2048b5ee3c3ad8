#include "common/mpi/transfer.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "common/matrix/error.hpp"
#include "common/mpi/check.hpp"
#include "common/mpi/environment.hpp"

namespace stages::mpi {
namespace {

constexpr int kTag = 1;

std::size_t chunk_limit = 0;  // 0: not asked for yet
Offset sent = 0;
Offset received = 0;

std::byte* bytes_at(void* data) { return static_cast<std::byte*>(data); }
const std::byte* bytes_at(const void* data) { return static_cast<const std::byte*>(data); }

/// Calls piece(offset, length) for the pieces of `bytes` bytes.
template <class Piece>
void in_pieces(std::size_t bytes, Piece&& piece) {
  for (std::size_t at = 0; at < bytes; at += chunk_bytes())
    piece(at, static_cast<int>(std::min(chunk_bytes(), bytes - at)));
}

}  // namespace

std::size_t chunk_bytes() {
  if (chunk_limit == 0) chunk_limit = chunk_bytes_wanted();
  return chunk_limit;
}

void set_chunk_bytes(std::size_t bytes) {
  if (bytes == 0 || bytes > std::size_t{std::numeric_limits<int>::max()})
    fail("a message of {} bytes is no limit; give 1 to 2147483647", bytes);
  chunk_limit = bytes;
}

Offset bytes_sent() { return sent; }
Offset bytes_received() { return received; }
void add_traffic(Offset bytes) { sent += bytes; }

Transfers::~Transfers() {
  // Only after an exception: the arrays are about to go away under messages that are still moving.
  for (MPI_Request& request : requests_) {
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
}

void Transfers::send_bytes(const void* data, std::size_t bytes, int to) {
  in_pieces(bytes, [&](std::size_t at, int length) {
    check(MPI_Isend(bytes_at(data) + at, length, MPI_BYTE, to, kTag, comm_, &requests_.emplace_back()),
          "sending");
  });
  sent += static_cast<Offset>(bytes);
}

void Transfers::receive_bytes(void* data, std::size_t bytes, int from) {
  in_pieces(bytes, [&](std::size_t at, int length) {
    check(MPI_Irecv(bytes_at(data) + at, length, MPI_BYTE, from, kTag, comm_, &requests_.emplace_back()),
          "receiving");
  });
  if (from != own_rank(comm_)) received += static_cast<Offset>(bytes);
}

void Transfers::wait() {
  // In groups, because the number of requests is an int too, and small pieces make many.
  constexpr std::size_t kGroup = 1 << 20;
  for (std::size_t at = 0; at < requests_.size(); at += kGroup) {
    const std::size_t group = std::min(kGroup, requests_.size() - at);
    check(MPI_Waitall(static_cast<int>(group), requests_.data() + at, MPI_STATUSES_IGNORE),
          "waiting for messages");
  }
  requests_.clear();
}

void broadcast_bytes(void* data, std::size_t bytes, int root, MPI_Comm comm) {
  in_pieces(bytes, [&](std::size_t at, int length) {
    check(MPI_Bcast(bytes_at(data) + at, length, MPI_BYTE, root, comm), "broadcasting");
  });
  if (own_rank(comm) == root) {
    sent += static_cast<Offset>(bytes) * (rank_count(comm) - 1);
  } else {
    received += static_cast<Offset>(bytes);
  }
}

namespace {

/// Between `root`, where the parts lie one behind the other, and the ranks that have one each, message by
/// message; `scatter`: from there, else to there. What is sent is only read.
void move_by_messages(std::byte* whole, std::byte* part, std::span<const std::size_t> bytes, int root,
                      MPI_Comm comm, bool scatter) {
  const int rank = own_rank(comm);
  const std::size_t own = bytes[static_cast<std::size_t>(rank)];
  Transfers transfers(comm);
  const auto move = [&](std::byte* data, std::size_t count, int other, bool send) {
    if (send) {
      transfers.send(data, static_cast<Offset>(count), other);
    } else {
      transfers.receive(data, static_cast<Offset>(count), other);
    }
  };
  if (rank != root) {
    move(part, own, root, !scatter);
  } else {
    for (std::size_t r = 0; r < bytes.size(); whole += bytes[r++]) {
      if (static_cast<int>(r) != root) {
        move(whole, bytes[r], static_cast<int>(r), scatter);
      } else if (own > 0) {
        std::memcpy(scatter ? part : whole, scatter ? whole : part, own);
      }
    }
  }
  transfers.wait();
}

/// The sum of the parts' sizes, of which each rank must have one.
std::size_t whole_bytes(std::span<const std::size_t> bytes, MPI_Comm comm) {
  if (std::ssize(bytes) != rank_count(comm))
    fail("sizes of {} parts were given for {} ranks; give one a rank", bytes.size(), rank_count(comm));
  return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
}

/// Parts of a whole of fewer than 2^31 bytes, as MPI wants them.
struct Parts {
  explicit Parts(std::span<const std::size_t> bytes)
      : counts(bytes.begin(), bytes.end()), places(counts.size()) {
    std::exclusive_scan(counts.begin(), counts.end(), places.begin(), 0);
  }
  std::vector<int> counts, places;
};

}  // namespace

void move_parts(void* whole, void* part, std::span<const std::size_t> bytes, int root, MPI_Comm comm,
                bool scatter) {
  const std::size_t all = whole_bytes(bytes, comm);
  if (all > chunk_bytes())
    return move_by_messages(bytes_at(whole), bytes_at(part), bytes, root, comm, scatter);
  const int rank = own_rank(comm);
  const std::size_t own = bytes[static_cast<std::size_t>(rank)];
  const auto [counts, places] = Parts(bytes);
  if (scatter) {
    check(MPI_Scatterv(whole, counts.data(), places.data(), MPI_BYTE, part, static_cast<int>(own), MPI_BYTE,
                       root, comm),
          "scattering");
  } else {
    check(MPI_Gatherv(part, static_cast<int>(own), MPI_BYTE, whole, counts.data(), places.data(), MPI_BYTE,
                      root, comm),
          "gathering");
  }
  (scatter == (rank == root) ? sent : received) += static_cast<Offset>(rank == root ? all - own : own);
}

void all_gather_bytes(void* whole, std::span<const std::size_t> bytes, MPI_Comm comm) {
  const std::size_t all = whole_bytes(bytes, comm), own = bytes[static_cast<std::size_t>(own_rank(comm))];
  if (all > chunk_bytes()) {
    for (std::size_t r = 0, at = 0; r < bytes.size(); at += bytes[r++])
      broadcast_bytes(bytes_at(whole) + at, bytes[r], static_cast<int>(r), comm);
    return;
  }
  const auto [counts, places] = Parts(bytes);
  check(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_BYTE, whole, counts.data(), places.data(), MPI_BYTE, comm),
        "bringing the parts to all ranks");
  sent += static_cast<Offset>(own) * (rank_count(comm) - 1);
  received += static_cast<Offset>(all - own);
}

std::vector<Offset> all_gather(std::span<const Offset> values, MPI_Comm comm) {
  std::vector<Offset> out(values.size() * static_cast<std::size_t>(rank_count(comm)));
  const int count = narrow<int>(values.size());
  check(MPI_Allgather(values.data(), count, MPI_INT64_T, out.data(), count, MPI_INT64_T, comm),
        "collecting counts");
  return out;
}

std::vector<Offset> all_bounds(Offset count, MPI_Comm comm) {
  const std::vector<Offset> counts = all_gather(std::span(&count, 1), comm);
  std::vector<Offset> bounds(counts.size() + 1, 0);
  std::partial_sum(counts.begin(), counts.end(), bounds.begin() + 1);
  return bounds;
}

std::string all_text(const std::string& mine, MPI_Comm comm) {
  const std::vector<Offset> bounds = all_bounds(std::ssize(mine), comm);
  std::string all(static_cast<std::size_t>(bounds.back()), ' ');
  std::copy(mine.begin(), mine.end(), all.begin() + bounds[static_cast<std::size_t>(own_rank(comm))]);
  all_gather(all.data(), bounds, comm);
  return all;
}

std::vector<Offset> all_to_all(std::span<const Offset> counts, MPI_Comm comm) {
  std::vector<Offset> out(counts.size());
  check(MPI_Alltoall(counts.data(), 1, MPI_INT64_T, out.data(), 1, MPI_INT64_T, comm), "exchanging counts");
  return out;
}

void sum_over_ranks(std::span<double> values, MPI_Comm comm) {
  check(MPI_Allreduce(MPI_IN_PLACE, values.data(), narrow<int>(values.size()), MPI_DOUBLE, MPI_SUM, comm),
        "summing over the ranks");
}

void max_over_ranks(std::span<double> values, MPI_Comm comm) {
  check(MPI_Allreduce(MPI_IN_PLACE, values.data(), narrow<int>(values.size()), MPI_DOUBLE, MPI_MAX, comm),
        "finding the maximum over the ranks");
}

}  // namespace stages::mpi
