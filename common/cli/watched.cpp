#include "common/cli/watched.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "common/cli/child.hpp"
#include "common/matrix/error.hpp"

namespace stages {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(5);  ///< for a child that was asked to end
constexpr auto kLook = std::chrono::milliseconds(20);

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double resident_bytes(pid_t child) {
  std::ifstream file(fmt::format("/proc/{}/statm", child));
  double size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

[[noreturn]] void become(const WatchedCommand& command, int output, pid_t parent) {
  end_with(parent);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  for (const auto& [name, value] : command.environment) setenv(name.c_str(), value.c_str(), 1);
  become_program(command.words);
  dprintf(STDERR_FILENO, "%s: cannot be run: %s\n", command.words.front().c_str(), std::strerror(errno));
  _exit(127);
}

/// Asks the child and what it started to end (mpirun ends its ranks), then makes them.
void end(pid_t child) {
  int status = 0;
  kill(-child, SIGTERM);
  const auto asked = Clock::now();
  while (waitpid(child, &status, WNOHANG) == 0 && Clock::now() - asked < kPatience)
    std::this_thread::sleep_for(kLook);
  kill(-child, SIGKILL);
  waitpid(child, &status, 0);
}

}  // namespace

WatchedEnd run_watched(const WatchedCommand& command) {
  const int output = open(command.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (output < 0) fail("{}: cannot be written: {}; free some room", command.output, std::strerror(errno));
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) become(command, output, parent);
  close(output);
  if (child < 0)
    fail("{}: cannot be started: {}; close other programs, or raise `ulimit -u`", command.words.front(),
         std::strerror(errno));
  setpgid(child, child);
  auto heard = Clock::now();
  double life = 0;
  for (;;) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      kill(-child, SIGKILL);  // what it may have left behind
      if (WIFSIGNALED(status)) return {End::killed_by_signal, WTERMSIG(status)};
      return {End::exited, WEXITSTATUS(status)};
    }
    if (const double now = command.sign_of_life ? command.sign_of_life() : 0; now != life) {
      life = now;
      heard = Clock::now();
    }
    const bool too_long = command.silence > 0 && seconds_since(heard) > command.silence;
    const bool too_much = command.most_memory > 0 && resident_bytes(child) > command.most_memory;
    if (too_long || too_much) {
      end(child);
      return {too_long ? End::too_long : End::too_much_memory, SIGKILL};
    }
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace stages
