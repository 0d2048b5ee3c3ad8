// A program for a processor that nobody has: cli/built_for.cpp is compiled for one with FMA4. Global objects
// are made before main, and so the line must come before this one's.
#include <cstdio>

#include "common/cli/processor.hpp"

namespace {
const int global_object = std::printf("a global object was made\n");
}

int main() {
  stages::require_processor();
  return global_object > 0 ? 0 : 1;
}
