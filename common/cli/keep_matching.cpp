#include <regex.h>

#include <array>
#include <string_view>

#include "common/cli/run_choice.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/text_lines.hpp"

namespace stages {
namespace {

constexpr std::size_t kLongest = 5000, kMostGroups = 100, kMostRepeats = 3;

/// Throws Error for expressions on which regcomp and regexec of the C library take all time, memory or stack:
/// they write repeats out (so that repeats of repeats multiply), recurse into groups, and try all ways to
/// match what refers back. Names of entries ask for none of this.
void require_modest(std::string_view text) {
  constexpr std::string_view kRepeat = "*+?";
  std::size_t groups = 0, repeats = 0;
  for (std::size_t k = 0; k < text.size(); ++k) {
    const char c = text[k], before = k > 0 ? text[k - 1] : '\0';
    if (c == '{' || (before == '\\' && c >= '1' && c <= '9'))
      fail("--filter {}: repeats in braces and \\1 are not taken; write them out", quoted(text));
    if (c == '(') ++groups;
    if (kRepeat.find(c) != kRepeat.npos && (before == ')' || kRepeat.find(before) != kRepeat.npos)) ++repeats;
  }
  if (text.size() > kLongest || groups > kMostGroups || repeats > kMostRepeats)
    fail("--filter {}: it is too large, or repeats too many groups; write a shorter one", quoted(text));
}

}  // namespace

void keep_matching(std::vector<const Entry*>& entries, const std::string& filter) {
  if (filter.empty()) return;
  require_modest(filter);
  regex_t compiled;
  if (const int problem = regcomp(&compiled, filter.c_str(), REG_EXTENDED | REG_NOSUB); problem != 0) {
    std::array<char, 200> why{};
    regerror(problem, &compiled, why.data(), why.size());
    fail("--filter {}: no regular expression: {}", quoted(filter), why.data());
  }
  std::erase_if(entries,
                [&](const Entry* e) { return regexec(&compiled, e->name.c_str(), 0, nullptr, 0) != 0; });
  regfree(&compiled);
}

}  // namespace stages
