#include "common/harness/machine.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "common/matrix/error.hpp"
#include "common/matrix/memory.hpp"

namespace stages {
std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

double last_level_cache_bytes() {
  double largest = 0;
  for (int i = 0; i < 8; ++i) {
    std::ifstream in(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", i));
    double size = 0;
    char unit = 0;
    if (in >> size >> unit) largest = std::max(largest, size * (unit == 'M' ? 1 << 20 : 1 << 10));
  }
  return largest;
}

double most_copied_bytes() {
  const char* const given = std::getenv("STAGES_COPY_BYTES");
  if (given == nullptr) return 0;
  const std::string_view text = given;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1)
    fail("STAGES_COPY_BYTES={}: give a whole number of bytes, or leave it out", text);
  return static_cast<double>(value);
}

double beyond_caches(double times, double least, int sharing) {
  if (const double most = most_copied_bytes(); most > 0) return most;
  constexpr double kMost = 512.0 * (1 << 20);
  const double wanted = std::min(std::max(times * last_level_cache_bytes() / sharing, least), kMost);
  const double room = static_cast<double>(available_memory()) / 16 / sharing;
  return std::min(wanted, std::max(room, 1.0 * (1 << 20)));
}

double total_memory_bytes() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

std::string system_name() {
  utsname name{};
  uname(&name);
  return fmt::format("{} {} {}", name.sysname, name.release, name.machine);
}

}  // namespace stages
