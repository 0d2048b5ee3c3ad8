#include "common/cli/machines/child.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <sstream>

namespace stages {
namespace {

bool is_program(const std::string& path) {
  std::error_code none;
  return access(path.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(path, none);
}

}  // namespace

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
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

std::vector<std::string> words_in(std::string_view text) {
  std::istringstream words{std::string(text)};
  return {std::istream_iterator<std::string>(words), {}};
}

std::vector<std::string> words_that_start_ranks(std::vector<std::string> otherwise) {
  const char* const chosen = std::getenv("STAGES_MPIRUN");
  const std::vector<std::string> words = words_in(chosen != nullptr ? chosen : "");
  return words.empty() ? otherwise : words;
}

std::string signal_text(int number) {
  const char* const name = sigabbrev_np(number);
  return name != nullptr ? fmt::format("SIG{} ({})", name, strsignal(number)) : strsignal(number);
}

}  // namespace stages
