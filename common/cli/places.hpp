#pragma once
// Where the entries of a run run: on the devices of this process, or on all ranks.

#include <optional>
#include <string>

#include "common/cli/machines/devices.hpp"
#include "common/cli/machines/ranks.hpp"

namespace stages {

class Places {
 public:
  /// `gpus_of_ranks`: each process takes a GPU then, and memory of it. `devices`: of somebody else, who keeps
  /// them; null: this process's are looked for when they are asked for first.
  Places(Ranks& ranks, KernelLaunch launch, bool gpus_of_ranks, const Devices* devices = nullptr)
      : ranks_(ranks), launch_(launch), gpus_of_ranks_(gpus_of_ranks), devices_(devices) {}

  /// For entries of one process. Of several ranks only rank 0 takes its GPU.
  const Machine& alone() {
    if (devices_ == nullptr) devices_ = &own_.emplace(launch_);
    return devices_->machine();
  }
  /// All there is: the ranks where they were started, which is collective then.
  Machine all() { return ranks_.started() ? ranks_.machine(gpus_of_ranks_) : alone(); }

  /// Why it is not known for how long the GPU is busy, once: the first time that it is asked for in vain.
  std::string newly_not_traced() {
    if (told_ || devices_ == nullptr || alone().gpu == nullptr) return {};
    std::string why = alone().gpu->why_not_traced();
    told_ = !why.empty();
    return why;
  }

 private:
  Ranks& ranks_;
  KernelLaunch launch_;
  bool gpus_of_ranks_;
  const Devices* devices_;
  std::optional<Devices> own_;
  bool told_ = false;
};

}  // namespace stages
