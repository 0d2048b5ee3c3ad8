#include "common/machines/child.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstring>

namespace stages {

void end_with(pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);  // it has ended already
}

void become_program(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
}

std::string signal_text(int number) {
  const char* const name = sigabbrev_np(number);
  return name != nullptr ? fmt::format("SIG{} ({})", name, strsignal(number)) : strsignal(number);
}

}  // namespace stages
