#include "common/matrix/memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "common/matrix/error.hpp"

namespace stages {
namespace {

/// The number behind `key` in a file of lines "KEY NUMBER ...".
std::optional<Offset> number_of(const std::string& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word;
    Offset number = 0;
    if (words >> word && word == key && words >> number) return number;
  }
  return std::nullopt;
}

/// The number that is all of a file; none where it says "max".
std::optional<Offset> only_number(const std::string& file) {
  Offset number = 0;
  if (std::ifstream(file) >> number) return number;
  return std::nullopt;
}

/// What the files of one version of cgroups are called.
struct Names {
  std::string mount, limit, used, reclaimable;
};

/// What is left in the cgroup `path` and in those around it. Cached pages of files count as used there, and
/// are given back when they are wanted. A container may see its own cgroup as the topmost one, whatever its
/// path.
Offset left_in_cgroups(const Names& names, std::string path) {
  Offset left = std::numeric_limits<Offset>::max();
  for (;;) {
    if (path == "/") path.clear();
    const std::string directory = names.mount + path;
    if (const auto limit = only_number(directory + names.limit)) {
      const Offset used = only_number(directory + names.used).value_or(0);
      const Offset cached = number_of(directory + "/memory.stat", names.reclaimable).value_or(0);
      left = std::min(left, *limit - std::max<Offset>(0, used - cached));
    }
    if (path.empty()) return left;
    path.erase(path.rfind('/'));
  }
}

Offset left_in_cgroups(const std::string& root) {
  Offset left = std::numeric_limits<Offset>::max();
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // ID:CONTROLLERS:/PATH; version 2 names no controllers
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || line.compare(second + 1, 1, "/") != 0) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const bool second_version = controllers == ",,";
    if (!second_version && controllers.find(",memory,") == std::string::npos) continue;
    const Names names =
        second_version ? Names{root + "/sys/fs/cgroup", "/memory.max", "/memory.current", "inactive_file"}
                       : Names{root + "/sys/fs/cgroup/memory", "/memory.limit_in_bytes",
                               "/memory.usage_in_bytes", "total_inactive_file"};
    left = std::min(left, left_in_cgroups(names, line.substr(second + 1)));
  }
  return left;
}

/// What a limit of the process leaves, of which `used` is taken.
Offset left_of(__rlimit_resource resource, Offset used) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<Offset>::max();
  return static_cast<Offset>(limit.rlim_cur) - used;
}

}  // namespace

Offset available_memory(const std::string& root) {
  const Offset page = sysconf(_SC_PAGESIZE);
  const auto kilobytes = number_of(root + "/proc/meminfo", "MemAvailable:");
  Offset left = kilobytes ? *kilobytes * 1024 : Offset{sysconf(_SC_PHYS_PAGES)} * page;
  left = std::min(left, left_in_cgroups(root));
  // Pages: all, resident, shared, code, 0, data and stack.
  Offset all = 0, data = 0, skipped = 0;
  std::ifstream(root + "/proc/self/statm") >> all >> skipped >> skipped >> skipped >> skipped >> data;
  left = std::min({left, left_of(RLIMIT_AS, all * page), left_of(RLIMIT_DATA, data * page)});
  return std::max<Offset>(0, left);
}

void require_memory(double bytes, const std::string& what) {
  constexpr double kNotWorthAsking = 64e6;
  if (bytes < kNotWorthAsking) return;
  const auto most = static_cast<double>(available_memory());
  if (bytes > most)
    throw OutOfMemory(
        fmt::format("{} takes {:.3g} GB of memory, and {:.3g} GB are free; take a smaller matrix", what,
                    bytes / 1e9, most / 1e9));
}

}  // namespace stages
