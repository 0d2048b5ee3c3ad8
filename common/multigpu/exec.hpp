#pragma once
// Several processes of MPI, each with a GPU, as a place where plans run.

#include "common/gpu/exec.hpp"
#include "common/gpu/memory.hpp"
#include "common/mpi/communicator.hpp"

namespace stages::mpi {

/// Why the processes cannot all run kernels: what the first of them that can't says. Empty: they can.
/// Collective.
std::string multi_gpu_problem(MpiCommunicator& ranks);

/// This process's GPU, the one whose number is its rank on the node modulo the node's GPUs, beside those of
/// the other processes. Several processes may share a GPU; under the cpu preset each has an executor of its
/// own. Times are by the wall clock between full synchronisations and, like the phases within them, the
/// maximum over the processes; copy_bandwidth() is that of all GPUs at once. is_shared() is for all
/// processes: whether any of them share a GPU.
class MultiGpuExec final : public GpuExec {
 public:
  /// Collective. Makes the GPU this process's current device for good, so no other must have been in use.
  /// Throws Error where no kernel can run; multi_gpu_problem() tells beforehand.
  explicit MultiGpuExec(MpiCommunicator& ranks);

  Communicator& communicator() override { return ranks_; }

  std::string device() const override;
  std::vector<std::pair<std::string, std::string>> facts() const override;
  /// This process's share of what is free on its GPU.
  double memory_limit() const override;
  double to_host_bytes_per_second() const override { return to_host_; }
  bool is_shared() const override { return most_sharing_ > 1; }
  void alone(const std::function<void()>& work) override;
  /// Collective.
  double time(const std::function<void()>& work) override;
  /// As it is: a graph holds no messages.
  std::function<void()> record(std::function<void()> run) override { return run; }

 protected:
  double measure_copy_bandwidth() override;

 private:
  void count_gpus();
  void measure_to_host();
  void take_longest_phases();

  MpiCommunicator& ranks_;
  int gpus_ = 1;
  int sharing_ = 1;       ///< processes on this one's GPU
  int turn_ = 0;          ///< those of them before this one
  int most_sharing_ = 1;  ///< processes on one GPU, of all GPUs
  double to_host_ = std::numeric_limits<double>::quiet_NaN();
  DeviceArray<unsigned> word_;
};

}  // namespace stages::mpi
