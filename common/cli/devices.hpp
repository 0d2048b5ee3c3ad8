#pragma once
// Where a command runs. This is the one place that chooses devices: everything else asks the Machine that it
// gives.

#include "common/harness/runner.hpp"

namespace stages {

class Devices {
 public:
  const Machine& machine() const { return machine_; }

 private:
  Exec host_;
  Machine machine_{host_};
};

}  // namespace stages
