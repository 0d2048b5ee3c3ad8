#include "common/cli/pattern.hpp"

#include <array>

#include "common/matrix/error.hpp"

namespace stages {

Pattern::Pattern(const std::string& flag, const std::string& text) {
  const int problem = regcomp(&compiled_, text.c_str(), REG_EXTENDED | REG_NOSUB);
  if (problem == 0) return;
  std::array<char, 200> why{};
  regerror(problem, &compiled_, why.data(), why.size());
  fail("{} '{}': no regular expression: {}", flag, text, why.data());
}

}  // namespace stages
