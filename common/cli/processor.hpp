#pragma once
// With -march=native a program runs only on processors that can do what the one can that it was built on. On
// another, as of a cluster's compute nodes, it would die by an illegal instruction, which tells nobody a thing.

// What a processor may be able to do: the macro that is 1 where the compiler uses it, its name, and that which
// the compiler has for it.
#define STAGES_FEATURES(DO)                           \
  DO(__AVX512F__, "AVX-512", "avx512f")               \
  DO(__AVX512VBMI2__, "AVX-512 VBMI2", "avx512vbmi2") \
  DO(__AVX512VNNI__, "AVX-512 VNNI", "avx512vnni")    \
  DO(__AVX2__, "AVX2", "avx2")                        \
  DO(__FMA__, "FMA", "fma")                           \
  DO(__FMA4__, "FMA4", "fma4")                        \
  DO(__BMI2__, "BMI2", "bmi2")                        \
  DO(__AVX__, "AVX", "avx")                           \
  DO(__SSE4_2__, "SSE4.2", "sse4.2")

namespace stages {

/// Ends the program with a line and exit code 2 if it was built for a processor that can do more than this
/// one. This happens before main, since global objects, too, are made by code for that processor; the call in
/// main makes sure that it is linked.
void require_processor();

/// For each of STAGES_FEATURES whether all sources but processor.cpp were compiled for it. Data, so that no
/// code for that processor has to run to read it.
extern const bool built_for[];

}  // namespace stages
