#pragma once
// Tensor cores (compute capability 8.0 and later, and code that was compiled for that): a warp multiplies two
// small tiles by one instruction. Its operands are TF32: floats whose lower 13 bits are ignored, which leaves
// 10 of the 23 bits of the fraction, and the exponent as it is. Products are exact, and sums are floats.
//
// CUDA C++ has no name for this instruction in this shape, so here is the one place with its PTX.

#include "common/gpu/cuda.hpp"
#include "common/gpu/facts.hpp"

namespace stages {

/// Whether TF32 tiles can be multiplied: by the code that the current device takes.
inline bool has_tf32() { return code_capability() >= 80; }

#ifdef __CUDACC__

/// The nearest TF32 number; of two that are as near, the one farther from zero.
__device__ __forceinline__ float to_tf32(float value) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  unsigned bits = 0;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return __uint_as_float(bits);
#else
  __trap();  // compiled for older devices too, where has_tf32() is false and no such kernel is launched
  return value;
#endif
}

/// d += a b, with 16 x 8 elements of a, 8 x 8 of b and 16 x 8 of d. All 32 lanes must come. With g = lane / 4
/// and k = lane % 4, a lane brings
///   a   (row g, column k), (g + 8, k), (g, k + 4), (g + 8, k + 4)
///   b   (row k, column g), (k + 4, g)
///   d   (row g, column 2k), (g, 2k + 1), (g + 8, 2k), (g + 8, 2k + 1)
/// Source: PTX ISA, "Matrix Fragments for mma.m16n8k8".
__device__ __forceinline__ void multiply_tiles(float (&d)[4], const float (&a)[4], const float (&b)[2]) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
        "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
#else
  __trap();
#endif
}

#elif STAGES_SIMULATED

inline float to_tf32(float value) { return simt::nearest_tf32(value); }
inline void multiply_tiles(float (&d)[4], const float (&a)[4], const float (&b)[2],
                           simt::Where at = simt::Where::current()) {
  simt::require_capability(80, "multiply_tiles", at);
  simt::multiply_tiles({d, a, b}, at);
}

#endif

}  // namespace stages
