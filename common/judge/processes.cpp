#include "common/judge/processes.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace stages::judge {
namespace {

/// All processes of this machine that can be seen.
std::vector<Process> all_processes() {
  std::vector<Process> out;
  DIR* const directory = opendir("/proc");
  if (directory == nullptr) return out;
  const auto page = static_cast<double>(sysconf(_SC_PAGESIZE));
  while (const dirent* const entry = readdir(directory)) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
    std::ifstream file(fmt::format("/proc/{}/stat", entry->d_name));
    std::string line;
    if (!std::getline(file, line)) continue;
    // The name, in parentheses, may hold anything, so that it is looked for from behind.
    const std::size_t after_name = line.rfind(')');
    if (after_name == std::string::npos) continue;
    Process process{.id = std::atoi(entry->d_name)};
    std::istringstream rest(line.substr(after_name + 1));
    rest >> process.state >> process.parent;
    double pages = 0;
    for (int field = 5; field <= 24; ++field) rest >> pages;  // the last is that of resident pages
    process.resident = pages * page;
    out.push_back(process);
  }
  closedir(directory);
  return out;
}

}  // namespace

std::vector<Process> descendants() {
  const std::vector<Process> all = all_processes();
  std::vector<pid_t> found = {getpid()};
  std::vector<Process> out;
  for (std::size_t k = 0; k < found.size(); ++k) {
    for (const Process& process : all) {
      if (process.parent != found[k]) continue;
      found.push_back(process.id);
      out.push_back(process);
    }
  }
  return out;
}

double written_by(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/io", process));
  double bytes = 0;
  for (std::string name; file >> name;) {
    if (name == "write_bytes:") file >> bytes;
  }
  return bytes;
}

rlim_t tasks_of(uid_t user) {
  rlim_t count = 0;
  for (const Process& process : all_processes()) {
    struct stat status {};
    const std::string tasks = fmt::format("/proc/{}/task", process.id);
    if (stat(tasks.c_str(), &status) == 0 && status.st_uid == user && status.st_nlink > 2)
      count += status.st_nlink - 2;
  }
  return count;
}

}  // namespace stages::judge
