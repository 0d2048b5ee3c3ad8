#include "common/cli/pattern.hpp"

#include <array>
#include <string_view>

#include "common/matrix/error.hpp"
#include "common/matrix/text_lines.hpp"

namespace stages {
namespace {

constexpr std::size_t kLongest = 5000, kMostGroups = 100, kMostRepeats = 3;

/// Throws Error for expressions on which regcomp and regexec of the C library take all time, memory or stack:
/// they write repeats out (so that repeats of repeats multiply), recurse into groups, and try all ways to
/// match what refers back. Names of entries ask for none of this.
void require_modest(const std::string& flag, std::string_view text) {
  constexpr std::string_view kRepeat = "*+?";
  std::size_t groups = 0, repeats = 0;
  for (std::size_t k = 0; k < text.size(); ++k) {
    const char c = text[k], before = k > 0 ? text[k - 1] : '\0';
    if (c == '{' || (before == '\\' && c >= '1' && c <= '9'))
      fail("{} {}: repeats in braces and \\1 are not taken; write them out", flag, stages::quoted(text));
    if (c == '(') ++groups;
    if (kRepeat.find(c) != kRepeat.npos && (before == ')' || kRepeat.find(before) != kRepeat.npos)) ++repeats;
  }
  if (text.size() > kLongest || groups > kMostGroups || repeats > kMostRepeats)
    fail("{} {}: it is too large, or repeats too many groups; write a shorter one", flag,
         stages::quoted(text));
}

}  // namespace

Pattern::Pattern(const std::string& flag, const std::string& text) {
  require_modest(flag, text);
  const int problem = regcomp(&compiled_, text.c_str(), REG_EXTENDED | REG_NOSUB);
  if (problem == 0) return;
  std::array<char, 200> why{};
  regerror(problem, &compiled_, why.data(), why.size());
  fail("{} {}: no regular expression: {}", flag, stages::quoted(text), why.data());
}

}  // namespace stages
