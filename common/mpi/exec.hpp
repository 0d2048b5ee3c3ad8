#pragma once
// The host processors of several ranks as a place where plans run.

#include "common/mpi/communicator.hpp"

namespace stages::mpi {

/// Each rank is one thread. Times, and the phases within them, are the maximum over the ranks;
/// copy_bandwidth() is that of all ranks copying at once, and collective at the first call.
class MpiExec final : public Exec {
 public:
  explicit MpiExec(MpiCommunicator& ranks) : ranks_(ranks) {}

  Communicator& communicator() override { return ranks_; }
  MpiCommunicator& ranks() { return ranks_; }
  std::string device() const override;
  std::vector<std::pair<std::string, std::string>> facts() const override;
  double time(const std::function<void()>& work) override;

 protected:
  double measure_copy_bandwidth() override;

 private:
  void take_maximum_of_phases();

  MpiCommunicator& ranks_;
};

/// How many cores this process's machine lends it, and how many threads each of them runs at once.
struct Cores {
  int cores = 1, threads_per_core = 1;
};
Cores cores_here();

/// Ranks on this node for each of its cores; at most 1 unless they share.
double oversubscription(const MpiCommunicator& ranks);

}  // namespace stages::mpi
