#pragma once
// A regular expression of POSIX (extended). Not std::regex, which takes seconds to compile, recurses for each
// character and can be made to run for ever.

#include <regex.h>

#include <string>

namespace stages {

class Pattern {
 public:
  /// Throws Error, naming `flag`, where the text is no regular expression, or one that would take very long
  /// or much memory.
  Pattern(const std::string& flag, const std::string& text);
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
