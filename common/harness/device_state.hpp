#pragma once
// What a device was doing while it was timed.

#include <optional>
#include <string>

namespace stages {

/// As the device's driver tells it. What it does not tell is empty.
struct DeviceState {
  std::string unknown = "this device does not tell of it";  ///< why all below is empty; empty where it is not
  std::optional<double> clock_mhz;
  std::optional<std::string>
      held_back;  ///< what keeps the clock below what it could be, as "heat"; "": nothing

  bool is_held_back() const { return held_back && !held_back->empty(); }
};

}  // namespace stages
