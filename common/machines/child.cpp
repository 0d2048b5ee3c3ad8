#include "common/machines/child.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

namespace stages {
namespace {

bool is_program(const std::string& path) {
  std::error_code none;
  return access(path.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(path, none);
}

}  // namespace

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

std::string found_on_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return is_program(name) ? name : std::string();
  const char* const value = std::getenv("PATH");
  std::istringstream places(value != nullptr ? value : "/usr/bin:/bin");
  for (std::string place; std::getline(places, place, ':');) {
    const std::string path = (place.empty() ? "." : place) + "/" + name;
    if (is_program(path)) return std::filesystem::absolute(path).string();
  }
  return {};
}

std::vector<std::string> words_that_start_ranks(std::vector<std::string> otherwise) {
  const char* const chosen = std::getenv("STAGES_MPIRUN");
  std::istringstream text(chosen != nullptr ? chosen : "");
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words.empty() ? otherwise : words;
}

std::string signal_text(int number) {
  const char* const name = sigabbrev_np(number);
  return name != nullptr ? fmt::format("SIG{} ({})", name, strsignal(number)) : strsignal(number);
}

}  // namespace stages
