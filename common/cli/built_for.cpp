// What our code was compiled for. This source has the flags of all others, so it knows the same macros. A
// list of names, and nothing but data.
#include "common/cli/processor.hpp"

namespace stages {

constinit const char* const built_for[] = {
#ifdef __AVX512F__
    "AVX-512",
#endif
#ifdef __AVX512VBMI2__
    "AVX-512 VBMI2",
#endif
#ifdef __AVX512VNNI__
    "AVX-512 VNNI",
#endif
#ifdef __AVX2__
    "AVX2",
#endif
#ifdef __FMA__
    "FMA",
#endif
#ifdef __FMA4__
    "FMA4",
#endif
#ifdef __BMI2__
    "BMI2",
#endif
#ifdef __AVX__
    "AVX",
#endif
#ifdef __SSE4_2__
    "SSE4.2",
#endif
    nullptr};

}  // namespace stages
