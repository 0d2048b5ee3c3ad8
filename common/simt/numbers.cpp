#include "common/simt/numbers.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/matrix/error.hpp"
#include "common/matrix/processors.hpp"

namespace stages::simt {
namespace {

/// What the variable holds; `otherwise` where it is not there, or empty.
template <class T>
T number(const char* variable, const char* what, T otherwise, T most) {
  const char* const set = std::getenv(variable);
  const std::string_view text = set != nullptr ? set : "";
  if (text.empty()) return otherwise;
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0 && value <= most))
    fail("{} is '{}'; it must be {}, above 0 and at most {}", variable, text, what, most);
  return value;
}

constexpr std::array kDevices = {
    Device{"sm_75", 7, 5, 64 * 1024, 0, 1024, 16},      // T4, RTX 20
    Device{"sm_80", 8, 0, 164 * 1024, 1024, 2048, 32},  // A100
    Device{"sm_86", 8, 6, 100 * 1024, 1024, 1536, 16},  // RTX 30; RTX 40 and 50 have the same memory
    Device{"sm_90", 9, 0, 228 * 1024, 1024, 2048, 32},  // H100, H200
};

}  // namespace

const Numbers& numbers() {
  static const Numbers set = [] {
    constexpr std::size_t kMostMib = std::size_t{1} << 24;
    constexpr int kSms = 4, kMostSms = 1024;  // far fewer than a GPU has, so that small problems fill them
    constexpr int kL2 = 1, kMostL2 = 2047;    // far less, too; bytes are an int to CUDA
    const auto processors = static_cast<std::size_t>(available_processors());
    const auto bytes = [](const char* variable, std::size_t mib) {
      return number(variable, "a whole number of MiB", mib, kMostMib) << 20;
    };
    return Numbers{.patience = number("STAGES_WATCHDOG", "seconds", 60.0, 1e6),
                   .workers = number<std::size_t>("STAGES_WORKERS", "a whole number", processors, 1024),
                   .device_memory = bytes("STAGES_DEVICE_MEMORY", 4096),
                   .device_sms = number("STAGES_DEVICE_SMS", "a whole number", kSms, kMostSms),
                   .device_l2 = number("STAGES_DEVICE_L2", "a whole number of MiB", kL2, kMostL2) << 20,
                   .races_memory = bytes("STAGES_RACES_MEMORY", 2048)};
  }();
  return set;
}

const Device& device() {
  static const Device* const chosen = [] {
    const char* const name = std::getenv("STAGES_DEVICE");
    if (name == nullptr || *name == '\0') return &kDevices.back();
    std::string names;
    for (const Device& p : kDevices) {
      if (std::string_view(name) == p.name) return &p;
      names += names.empty() ? p.name : fmt::format(", {}", p.name);
    }
    fail("STAGES_DEVICE is '{}'; the executor knows {}", name, names);
  }();
  return *chosen;
}

}  // namespace stages::simt
