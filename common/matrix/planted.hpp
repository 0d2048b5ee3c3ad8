#pragma once
// Faults that are planted, to see whether a test sees them: each has a number, and is on where STAGES_PLANTED
// names it, as in STAGES_PLANTED=3,17. tests/planted.tsv tells what they are.

#include <array>
#include <cstddef>
#include <cstdlib>

namespace stages {

inline const std::array<bool, 64> kPlanted = [] {
  std::array<bool, 64> on{};
  const char* text = std::getenv("STAGES_PLANTED");
  while (text != nullptr && *text != '\0') {
    char* end = nullptr;
    const long number = std::strtol(text, &end, 10);
    if (end != text && number > 0 && number < 64) on[static_cast<std::size_t>(number)] = true;
    text = *end == '\0' ? end : end + 1;
  }
  return on;
}();

/// Not seen by the lens, which would count it as a load.
__attribute__((no_sanitize("thread"))) inline bool planted(int number) {
  return kPlanted[static_cast<std::size_t>(number)];
}

}  // namespace stages
