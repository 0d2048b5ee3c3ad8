#pragma once
// A regular expression of POSIX (extended). Not std::regex, which takes seconds to compile, recurses for each
// character and can be made to run for ever.

#include <regex.h>

#include <array>
#include <string>

#include "common/matrix/error.hpp"
#include "common/matrix/text_lines.hpp"

namespace stages {

class Pattern {
 public:
  /// Throws Error, naming `flag`, where the text is no regular expression.
  Pattern(const std::string& flag, const std::string& text) {
    const int problem = regcomp(&compiled_, text.c_str(), REG_EXTENDED | REG_NOSUB);
    if (problem == 0) return;
    std::array<char, 200> why{};
    regerror(problem, &compiled_, why.data(), why.size());
    fail("{} {}: no regular expression: {}", flag, stages::quoted(text), why.data());
  }
  ~Pattern() { regfree(&compiled_); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  /// Whether `text` holds a match.
  bool found_in(const std::string& text) const {
    return regexec(&compiled_, text.c_str(), 0, nullptr, 0) == 0;
  }

 private:
  regex_t compiled_;
};

}  // namespace stages
