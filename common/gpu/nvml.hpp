#pragma once
// A GPU's clock and what holds it back, by NVML, the library of NVIDIA's driver that nvidia-smi asks,
// too. It is looked for when a program runs: without it programs start, and all this is unknown.

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/harness/exec.hpp"

namespace stages {

class Nvml {
 public:
  /// NVML is asked no more often: it reads its sensors anew in some tens of milliseconds.
  static constexpr std::chrono::milliseconds kRefresh{20};

  /// Of the GPU with that UUID (DeviceFacts::uuid). What is missing is told by state().
  explicit Nvml(const std::array<std::int64_t, 2>& uuid, const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// As it is, or was kRefresh ago; `now`: as it is.
  DeviceState state(bool now = false);
  /// The highest clock of the SMs, in MHz.
  std::optional<double> most_clock_mhz() const;
  /// The driver's version, as "580.95.05"; empty: not known.
  std::string driver() const;
  /// Watts that the GPU may draw.
  std::optional<double> limit_watts() const;

 private:
  DeviceState ask() const;
  template <class T, class... Before>
  std::optional<double> number(const char* function, double unit, Before... before) const;

  std::string problem_;  ///< why nothing is known; empty: all is well
  void* library_ = nullptr;
  bool started_ = false;
  void* device_ = nullptr;
  std::optional<std::chrono::steady_clock::time_point> asked_;
  DeviceState last_;
};

/// "GPU-01234567-89ab-...", as NVML and nvidia-smi write it.
std::string uuid_in_words(const std::array<std::int64_t, 2>& uuid);

}  // namespace stages
