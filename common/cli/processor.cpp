// Compiled without -march=native (CMakeLists.txt), and with nothing of the C++ library in it: the linker
// keeps one copy of its inline functions, and that may be one from a source with that flag.
#include "common/cli/processor.hpp"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

namespace stages {
namespace {

/// Whether this processor can do what `built_for` names. What has no line here is taken to be there.
bool is_there(const char* name) {
#if defined(__x86_64__)
#define STAGES_FEATURE(ours, compilers) \
  if (strcmp(name, ours) == 0) return __builtin_cpu_supports(compilers) != 0
  STAGES_FEATURE("AVX-512", "avx512f");
  STAGES_FEATURE("AVX-512 VBMI2", "avx512vbmi2");
  STAGES_FEATURE("AVX-512 VNNI", "avx512vnni");
  STAGES_FEATURE("AVX2", "avx2");
  STAGES_FEATURE("FMA", "fma");
  STAGES_FEATURE("FMA4", "fma4");
  STAGES_FEATURE("BMI2", "bmi2");
  STAGES_FEATURE("AVX", "avx");
  STAGES_FEATURE("SSE4.2", "sse4.2");
#undef STAGES_FEATURE
#endif
  return name != nullptr;
}

/// 101 is the first place that is not the compiler's own: before all global objects.
[[gnu::constructor(101)]] void check_before_main() {
#if defined(__x86_64__)
  __builtin_cpu_init();
#endif
  for (const char* const* name = built_for; *name != nullptr; ++name) {
    if (is_there(*name)) continue;
    fprintf(stderr,
            "%s: error: this program was built for a processor with %s, which this one has not; configure "
            "with -DSTAGES_NATIVE=OFF and build it again\n",
            program_invocation_short_name, *name);
    _exit(2);
  }
}

}  // namespace

void require_processor() {}

}  // namespace stages
