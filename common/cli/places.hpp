#pragma once
// Where the entries of a run run: on the devices of this process, or on all ranks.

#include <optional>
#include <string>

#include "common/cli/machines/devices.hpp"
#include "common/cli/machines/ranks.hpp"

namespace stages {

class Places {
 public:
  /// `graphs` as for Devices, which are looked for when they are asked for first.
  explicit Places(Ranks& ranks, bool graphs = false) : ranks_(ranks), graphs_(graphs) {}

  /// For entries of one process. Of several ranks only rank 0 takes its GPU.
  const Machine& alone() {
    if (!devices_) devices_.emplace(graphs_);
    return devices_->machine();
  }
  /// All there is: the ranks where they were started, which is collective then. `gpus`: each of them takes a
  /// GPU, and memory of it.
  Machine all(bool gpus) { return ranks_.started() ? ranks_.machine(gpus) : alone(); }

  /// Why it is not known for how long the GPU is busy, once: the first time that it is asked for in vain.
  std::string newly_not_traced() {
    if (told_ || !devices_ || alone().gpu == nullptr) return {};
    std::string why = alone().gpu->why_not_traced();
    told_ = !why.empty();
    return why;
  }

 private:
  Ranks& ranks_;
  bool graphs_;
  std::optional<Devices> devices_;
  bool told_ = false;
};

}  // namespace stages
