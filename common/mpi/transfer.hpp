#pragma once
// Moving arrays between ranks, of any size. A count of MPI is an int, so a message of more than 2^31 - 1
// bytes must travel in pieces; here nothing is ever sent in larger pieces than chunk_bytes(). The receiver
// cuts where the sender cuts, because both know the size and the limit, and messages between two ranks do not
// overtake each other.

#include <mpi.h>

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "common/matrix/types.hpp"

namespace stages::mpi {

/// The largest message, bytes: chunk_bytes_wanted() of environment.hpp until set. The same on all ranks.
std::size_t chunk_bytes();
void set_chunk_bytes(std::size_t bytes);

/// Payload that this rank has sent since the program began: a broadcast counts once for each receiver, at the
/// root. Plans take differences. add_traffic is for bytes that move without a message, through a window.
Offset bytes_sent();
/// The same of messages that this rank has received from others.
Offset bytes_received();
void add_traffic(Offset bytes);

/// Sends and receives under way, in pieces. The arrays must stay until wait() returns.
class Transfers {
 public:
  explicit Transfers(MPI_Comm comm) : comm_(comm) {}
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  template <class T>
  void send(const T* data, Offset count, int to) {
    static_assert(std::is_trivially_copyable_v<T>);
    send_bytes(data, static_cast<std::size_t>(count) * sizeof(T), to);
  }
  template <class T>
  void receive(T* data, Offset count, int from) {
    static_assert(std::is_trivially_copyable_v<T>);
    receive_bytes(data, static_cast<std::size_t>(count) * sizeof(T), from);
  }
  /// Returns when all of them have ended; the object can then be used again.
  void wait();

 private:
  void send_bytes(const void* data, std::size_t bytes, int to);
  void receive_bytes(void* data, std::size_t bytes, int from);

  MPI_Comm comm_;
  std::vector<MPI_Request> requests_;
};

/// Copies `bytes` bytes at `data` on rank `root` to all ranks.
void broadcast_bytes(void* data, std::size_t bytes, int root, MPI_Comm comm);

/// Rank `root` holds the parts of all ranks one after the other in `whole`: part r is `bytes[r]` long. Rank
/// r's part goes to (`scatter`), or comes from, `part` there; what is sent is only read. `bytes` has a place
/// for each rank, on all ranks. Uses MPI_Scatterv and MPI_Gatherv where all of `whole` is below the limit, else
/// messages in pieces.
void move_parts(void* whole, void* part, std::span<const std::size_t> bytes, int root, MPI_Comm comm,
                bool scatter);
/// Part r of `whole` is there on rank r, and then on all ranks.
void all_gather_bytes(void* whole, std::span<const std::size_t> bytes, MPI_Comm comm);

template <class T>
void broadcast(T* data, Offset count, int root, MPI_Comm comm) {
  static_assert(std::is_trivially_copyable_v<T>);
  broadcast_bytes(data, static_cast<std::size_t>(count) * sizeof(T), root, comm);
}

/// Makes `data` as long as on rank `root`, and equal.
template <class T>
void broadcast(Buffer<T>& data, int root, MPI_Comm comm) {
  Offset count = std::ssize(data);
  broadcast(&count, 1, root, comm);
  data.resize(static_cast<std::size_t>(count));
  broadcast(data.data(), count, root, comm);
}

/// `bounds` are counts of T at which the parts of `whole` begin, and its length: ranks + 1 of them.
template <class T>
std::vector<std::size_t> part_bytes(std::span<const Offset> bounds) {
  std::vector<std::size_t> bytes(bounds.size() - 1);
  for (std::size_t r = 0; r < bytes.size(); ++r)
    bytes[r] = static_cast<std::size_t>(bounds[r + 1] - bounds[r]) * sizeof(T);
  return bytes;
}
template <class T>
void scatter(const T* whole, T* part, std::span<const Offset> bounds, int root, MPI_Comm comm) {
  static_assert(std::is_trivially_copyable_v<T>);
  move_parts(const_cast<T*>(whole), part, part_bytes<T>(bounds), root, comm, true);
}
template <class T>
void gather(const T* part, T* whole, std::span<const Offset> bounds, int root, MPI_Comm comm) {
  static_assert(std::is_trivially_copyable_v<T>);
  move_parts(whole, const_cast<T*>(part), part_bytes<T>(bounds), root, comm, false);
}
template <class T>
void all_gather(T* whole, std::span<const Offset> bounds, MPI_Comm comm) {
  static_assert(std::is_trivially_copyable_v<T>);
  all_gather_bytes(whole, part_bytes<T>(bounds), comm);
}

/// The `count` values of each rank, on all ranks, ordered by rank.
std::vector<Offset> all_gather(std::span<const Offset> values, MPI_Comm comm);

/// all_gather of one count each, summed up to bounds: 0, then the sums; ranks + 1 values.
std::vector<Offset> all_bounds(Offset count, MPI_Comm comm);

/// The text of each rank, one after the other, on all ranks.
std::string all_text(const std::string& mine, MPI_Comm comm);

/// One count to each rank; gives back one count from each.
std::vector<Offset> all_to_all(std::span<const Offset> counts, MPI_Comm comm);

/// Elementwise over all ranks.
void sum_over_ranks(std::span<double> values, MPI_Comm comm);
void max_over_ranks(std::span<double> values, MPI_Comm comm);

}  // namespace stages::mpi
