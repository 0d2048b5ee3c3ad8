#pragma once
// Where a command runs: the one place that chooses devices. All else asks the Machine that it gives.

#include <memory>

#include "common/harness/runner.hpp"

namespace stages {

/// How the kernels of a timed run reach the GPU: one by one, or recorded once and replayed as a CUDA graph.
enum class KernelLaunch { single, graph };
inline constexpr std::array<Named<KernelLaunch>, 2> kLaunches = {
    {{KernelLaunch::single, "single"}, {KernelLaunch::graph, "graph"}}};

/// The host, and the GPU: a real one (preset gpu), the executor (preset cpu), or the reason why there is none.
class Devices {
 public:
  explicit Devices(KernelLaunch launch = KernelLaunch::single);
  ~Devices();

  const Machine& machine() const { return *machine_; }

 private:
  Exec host_;
  std::unique_ptr<Exec> gpu_;
  std::unique_ptr<Machine> machine_;
};

}  // namespace stages
