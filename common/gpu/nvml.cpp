#include "common/gpu/nvml.hpp"

#include <fmt/format.h>

#include <cstring>

#include "common/gpu/library.hpp"

namespace stages {
namespace {

// As NVML's API reference has them: the header is not on every machine that has the library.
constexpr int kSmClock = 1;
constexpr std::uint64_t kHardware = 0x08;     ///< set beside each of those that say what it was
constexpr std::uint64_t kHardwareWhy = 0xc0;  ///< heat, the power supply
struct Reason {
  std::uint64_t bit;
  const char* words;
};
/// Not among them: a GPU at rest, and clocks that somebody has set lower, for whose end no run can wait.
constexpr Reason kHoldingBack[] = {{0x04, "its power limit"},
                                   {kHardware, "the hardware (heat or power)"},
                                   {0x20, "heat"},
                                   {0x40, "heat (by the hardware)"},
                                   {0x80, "the power supply"}};

}  // namespace

std::string uuid_in_words(const std::array<std::int64_t, 2>& uuid) {
  std::array<unsigned char, 16> bytes = {};
  std::memcpy(bytes.data(), uuid.data(), bytes.size());
  std::string text = "GPU-";
  for (std::size_t i = 0; i < bytes.size(); ++i)
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
  return text;
}

Nvml::Nvml(const std::array<std::int64_t, 2>& uuid, const std::string& library)
    : library_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) {
    problem_ = fmt::format("the driver's {} is not found", library);
    return;
  }
  auto* const init = function_of<int()>(library_, "nvmlInit_v2");
  auto* const find = function_of<int(const char*, void**)>(library_, "nvmlDeviceGetHandleByUUID");
  if (init == nullptr || find == nullptr) {
    problem_ = fmt::format("{} lacks what NVML has", library);
    return;
  }
  int code = init();
  started_ = code == 0;
  if (started_) code = find(uuid_in_words(uuid).c_str(), &device_);
  if (code == 0) return;
  auto* const words = function_of<const char*(int)>(library_, "nvmlErrorString");
  problem_ = fmt::format("NVML does not {}: {}", started_ ? "know " + uuid_in_words(uuid) : "start",
                         words != nullptr ? words(code) : fmt::format("error {}", code));
}

Nvml::~Nvml() {
  if (library_ == nullptr) return;
  auto* const end = function_of<int()>(library_, "nvmlShutdown");
  if (started_ && end != nullptr) end();
  dlclose(library_);
}

/// What `function` writes behind its other arguments, times `unit`; empty where GPU or driver tells nothing.
template <class T, class... Before>
std::optional<double> Nvml::number(const char* function, double unit, Before... before) const {
  if (!problem_.empty()) return std::nullopt;
  auto* const ask = function_of<int(void*, Before..., T*)>(library_, function);
  T value = 0;
  if (ask == nullptr || ask(device_, before..., &value) != 0) return std::nullopt;
  return static_cast<double>(value) * unit;
}

DeviceState Nvml::ask() const {
  DeviceState state{.unknown = problem_};
  if (!problem_.empty()) return state;
  state.clock_mhz = number<unsigned>("nvmlDeviceGetClockInfo", 1, kSmClock);
  const auto told = number<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons", 1);
  if (!told) return state;
  auto reasons = static_cast<std::uint64_t>(*told);
  if ((reasons & kHardwareWhy) != 0) reasons &= ~kHardware;
  state.held_back = "";
  for (const Reason& reason : kHoldingBack) {
    if ((reasons & reason.bit) != 0)
      *state.held_back += (state.held_back->empty() ? "" : ", ") + std::string(reason.words);
  }
  return state;
}

DeviceState Nvml::state(bool now) {
  const auto time = std::chrono::steady_clock::now();
  if (now || !asked_ || time - *asked_ > kRefresh) {
    last_ = ask();
    asked_ = std::chrono::steady_clock::now();
  }
  return last_;
}

std::optional<double> Nvml::most_clock_mhz() const {
  return number<unsigned>("nvmlDeviceGetMaxClockInfo", 1, kSmClock);
}

std::string Nvml::driver() const {
  if (!problem_.empty()) return {};
  auto* const ask = function_of<int(char*, unsigned)>(library_, "nvmlSystemGetDriverVersion");
  std::array<char, 80> version = {};
  return ask != nullptr && ask(version.data(), version.size()) == 0 ? version.data() : "";
}

std::optional<double> Nvml::limit_watts() const {
  return number<unsigned>("nvmlDeviceGetEnforcedPowerLimit", 1e-3);
}

}  // namespace stages
