// Compiled without -march=native (CMakeLists.txt), and with nothing of the C++ library in it: the linker
// keeps one copy of its inline functions, and that may be one from a source with that flag.
#include "common/cli/processor.hpp"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

namespace stages {
namespace {

/// 101 is the first place that is not the compiler's own: before all global objects.
[[gnu::constructor(101)]] void check_before_main() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool* needed = built_for;
#define STAGES_REQUIRE(macro, name, compilers)                                                              \
  if (*needed++ && !__builtin_cpu_supports(compilers)) {                                                    \
    fprintf(stderr,                                                                                         \
            "%s: error: this program was built for a processor with %s, which this one has not; configure " \
            "with -DSTAGES_NATIVE=OFF and build it again\n",                                                \
            program_invocation_short_name, name);                                                           \
    _exit(2);                                                                                               \
  }
  STAGES_FEATURES(STAGES_REQUIRE)
#undef STAGES_REQUIRE
#endif
}

}  // namespace

void require_processor() {}

}  // namespace stages
