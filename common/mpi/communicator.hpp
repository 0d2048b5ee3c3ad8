#pragma once
// The Communicator of several ranks, and how they lie on nodes.

#include <mpi.h>

#include <utility>

#include "common/harness/exec.hpp"
#include "common/mpi/check.hpp"
#include "common/mpi/environment.hpp"

namespace stages::mpi {

/// An MPI communicator that is freed with its owner; errors come back as exceptions.
class OwnedComm {
 public:
  OwnedComm() = default;
  explicit OwnedComm(MPI_Comm comm) : comm_(comm) {}
  OwnedComm(OwnedComm&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
  OwnedComm& operator=(OwnedComm&& other) noexcept {
    std::swap(comm_, other.comm_);
    return *this;
  }
  ~OwnedComm();

  MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// All ranks of MPI_COMM_WORLD. Needs a Session that outlives it.
class MpiCommunicator final : public Communicator {
 public:
  /// Collective. Nodes are the real ones, or `pretend` pieces of them (see environment.hpp).
  explicit MpiCommunicator(int pretend = pretend_nodes());

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  /// These three may wait long (rank 0 checks a result meanwhile, with all processors), so they sleep between
  /// looks after a moment. Where microseconds count, use MPI_Barrier(comm()).
  void barrier() override;
  void broadcast(void* data, std::size_t bytes) override;
  double max(double value) override;

  MPI_Comm comm() const { return comm_.get(); }

  /// The ranks that share memory with this one, in the order of their ranks in comm().
  MPI_Comm node() const { return node_.get(); }
  int node_rank() const { return node_rank_; }
  int node_size() const { return node_size_; }
  /// Nodes are numbered by their lowest rank, so rank 0 is on node 0.
  int node_index() const { return node_index_; }
  int nodes() const { return nodes_; }
  bool pretends() const { return pretend_ > 1; }
  /// The first rank of each node, ordered by node; MPI_COMM_NULL on the others.
  MPI_Comm leaders() const { return leaders_.get(); }

 private:
  OwnedComm comm_, node_, leaders_;
  int pretend_ = 1;
  int rank_ = 0, size_ = 1;
  int node_rank_ = 0, node_size_ = 1;
  int node_index_ = 0, nodes_ = 1;
};

/// Calls work() on this rank when those with lower turns are done; returns when all are. Collective: `turns`
/// is the same on all ranks, `turn` below that; ranks with equal turns work at the same time.
template <class Work>
void take_turns(int turn, int turns, MPI_Comm comm, Work&& work) {
  for (int k = 0; k < turns; ++k) {
    if (k > 0) check(MPI_Barrier(comm), "waiting for the turn");
    if (k == turn) work();
  }
  if (turns > 1) check(MPI_Barrier(comm), "waiting for the last turn");
}

/// The ranks behind an Exec; null where MPI does not run.
MpiCommunicator* ranks_of(Exec& exec);

}  // namespace stages::mpi
