#pragma once
// For the students' files that do what the environment variable STAGES_MISBEHAVE says.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace stages {

inline bool misbehaves(const char* how) {
  const char* const asked = std::getenv("STAGES_MISBEHAVE");
  return asked != nullptr && std::strcmp(asked, how) == 0;
}

/// Sleeps for ever.
[[noreturn]] inline void wait() {
  for (;;) pause();
}

inline void eat(double bytes) {
  for (double had = 0; had < bytes; had += 1e7) std::memset(std::malloc(10'000'000), 1, 10'000'000);
}

[[noreturn]] inline void fork_bomb() {
  for (;;) {
    if (fork() < 0) throw std::runtime_error("no more processes");
  }
}

}  // namespace stages
