#include "common/cli/pattern.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/matrix/error.hpp"
#include "common/matrix/text_lines.hpp"

namespace stages {
namespace {

constexpr std::int64_t kLargest = 5000;  ///< parts; a million of them takes seconds and gigabytes

/// Where what stands in brackets from `at` on ends: at its ']', where a first one stands for itself. Of a
/// class, as in [[:digit:]], a ']' remains, which counts as one more part.
std::size_t end_of_brackets(std::string_view text, std::size_t at) {
  const std::size_t first = at + (text.substr(at).starts_with("[^") ? 2 : 1);
  return std::min(text.find(']', first + 1), text.size());
}

/// The largest number in the braces from `at` on: how often the part before them is written out.
std::int64_t most_repeats(std::string_view text, std::size_t at) {
  std::int64_t most = 2;
  for (std::size_t k = at + 1; k < text.size() && text[k] != '}'; ++k) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data() + k, text.data() + text.size(), number);
    if (error == std::errc::result_out_of_range) return kLargest;
    if (error == std::errc()) k = static_cast<std::size_t>(end - text.data()) - 1;
    most = std::max(most, std::min(number, kLargest));
  }
  return most;
}

/// Throws Error for expressions on which regcomp and regexec of the C library take all time, memory or stack:
/// they write repeats out (so that repeats of repeats multiply), recurse into groups, and try all ways to
/// match what refers back.
void require_modest(const std::string& flag, std::string_view text) {
  std::vector<std::int64_t> around;  // sizes of the groups that are open, as far as they were read
  std::int64_t outside = 0;          // their sum
  std::int64_t size = 0, last = 0;   // of this group, and of the part that a repeat repeats
  for (std::size_t k = 0; k < text.size(); ++k) {
    const char c = text[k];
    if (c == '*' || c == '+' || c == '?' || c == '{') {
      const std::int64_t times = c == '{' ? most_repeats(text, k) : 2;
      size += last * (times - 1);
      last *= times;
    } else if (c == ')' && !around.empty()) {
      last = size + 1;
      outside -= around.back();
      size = around.back() + last;
      around.pop_back();
    } else if (c == '(') {
      around.push_back(size);
      outside += size;
      size = last = 0;
    } else {
      if (c == '[') k = end_of_brackets(text, k);
      if (c == '\\' && ++k < text.size() && text[k] >= '1' && text[k] <= '9')
        fail("{} {}: \\{} refers back, which no extended regular expression does; write it out", flag,
             stages::quoted(text), text[k]);
      last = 1;
      ++size;
    }
    if (outside + size + std::ssize(around) > kLargest)
      fail("{} {}: it is too large, or has too many repeats in repeats; write a shorter one", flag,
           stages::quoted(text));
  }
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
