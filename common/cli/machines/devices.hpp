#pragma once
// Where a command runs: the one place that chooses devices. All else asks the Machine that it gives.

#include <memory>
#include <optional>

#include "common/harness/runner.hpp"

namespace stages {

/// The host, and the GPU: a real one (preset gpu), the executor (preset cpu), or the reason why there is none.
class Devices {
 public:
  /// `graphs`: the kernels of a timed run are recorded once and replayed as a CUDA graph, not launched one by
  /// one.
  explicit Devices(bool graphs = false);
  ~Devices() = default;  // no copy: the machine knows where its devices lie

  const Machine& machine() const { return *machine_; }

 private:
  Exec host_;
  std::unique_ptr<Exec> gpu_;
  std::optional<Machine> machine_;
};

}  // namespace stages
