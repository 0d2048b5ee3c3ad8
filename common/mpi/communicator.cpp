#include "common/mpi/communicator.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <thread>

#include "common/mpi/transfer.hpp"

namespace stages::mpi {
namespace {

/// Waits for a collective that may take long, without keeping a processor busy for all of it.
void wait_quietly(MPI_Request request) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kAwake = std::chrono::milliseconds(2);
  constexpr auto kNap = std::chrono::microseconds(200);
  const auto start = Clock::now();
  for (int done = 0;;) {
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "waiting for the other ranks");
    if (done != 0) return;
    if (Clock::now() - start < kAwake) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
}

OwnedComm owned(MPI_Comm comm) {
  if (comm != MPI_COMM_NULL)
    check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "asking MPI to return its errors");
  return OwnedComm(comm);
}

OwnedComm split(MPI_Comm from, int colour, int key) {
  MPI_Comm out = MPI_COMM_NULL;
  check(MPI_Comm_split(from, colour, key, &out), "splitting the ranks");
  return owned(out);
}

}  // namespace

OwnedComm::~OwnedComm() {
  // Collective; after an exception the other ranks don't come.
  if (comm_ != MPI_COMM_NULL && std::uncaught_exceptions() == 0) MPI_Comm_free(&comm_);
}

MpiCommunicator::MpiCommunicator(int pretend) : pretend_(pretend) {
  MPI_Comm made = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &made), "copying the communicator");
  comm_ = owned(made);
  rank_ = own_rank(comm());
  size_ = rank_count(comm());
  made = MPI_COMM_NULL;
  check(MPI_Comm_split_type(comm(), MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &made),
        "finding the ranks of this node");
  node_ = owned(made);
  if (pretend_ > 1) {
    const int here = own_rank(node()), count = rank_count(node()), pieces = std::min(pretend_, count);
    node_ = split(node(), static_cast<int>(static_cast<long>(here) * pieces / count), here);
  }
  node_rank_ = own_rank(node());
  node_size_ = rank_count(node());
  leaders_ = split(comm(), node_rank_ == 0 ? 0 : MPI_UNDEFINED, rank_);
  int facts[2] = {0, 1};
  if (node_rank_ == 0) {
    check(MPI_Comm_rank(leaders(), &facts[0]), "numbering the nodes");
    check(MPI_Comm_size(leaders(), &facts[1]), "numbering the nodes");
  }
  check(MPI_Bcast(facts, 2, MPI_INT, 0, node()), "numbering the nodes");
  node_index_ = facts[0];
  nodes_ = facts[1];
}

void MpiCommunicator::barrier() {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(comm(), &request), "waiting for all ranks");
  wait_quietly(request);
}

void MpiCommunicator::broadcast(void* data, std::size_t bytes) {
  auto* at = static_cast<std::byte*>(data);
  for (std::size_t left = bytes; left > 0;) {
    const std::size_t now = std::min(left, chunk_bytes());
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(at, static_cast<int>(now), MPI_BYTE, 0, comm(), &request), "telling all ranks");
    wait_quietly(request);
    at += now;
    left -= now;
  }
}

double MpiCommunicator::max(double value) {
  double out = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallreduce(&value, &out, 1, MPI_DOUBLE, MPI_MAX, comm(), &request), "finding a maximum");
  wait_quietly(request);
  return out;
}

MpiCommunicator* ranks_of(Exec& exec) { return dynamic_cast<MpiCommunicator*>(&exec.communicator()); }

}  // namespace stages::mpi
