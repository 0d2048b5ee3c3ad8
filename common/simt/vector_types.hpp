#pragma once
// CUDA's short vectors and dim3, with CUDA's sizes and alignments, so that a 16-byte load in a kernel is a
// 16-byte load here and a misaligned one is caught by UBSan. Source: CUDA C++ Programming Guide, "Built-in
// Vector Types".

// One family per element type: NAME1 .. NAME4 and their make_ functions, aligned as the guide's table says.
// Those of 2 and 4 travel as one: g++ takes structs to pieces, but not one that ends in an array of no size.
#define STAGES_SIMT_WHOLE __extension__ char whole[]
#define STAGES_SIMT_VECTORS(NAME, T, ALIGN2, ALIGN4)                    \
  struct NAME##1 {                                                      \
    T x;                                                                \
  };                                                                    \
  struct alignas(ALIGN2) NAME##2 {                                      \
    T x, y;                                                             \
    STAGES_SIMT_WHOLE;                                                  \
  };                                                                    \
  struct NAME##3 {                                                      \
    T x, y, z;                                                          \
  };                                                                    \
  struct alignas(ALIGN4) NAME##4 {                                      \
    T x, y, z, w;                                                       \
    STAGES_SIMT_WHOLE;                                                  \
  };                                                                    \
  constexpr NAME##1 make_##NAME##1(T x) { return {x}; }                 \
  constexpr NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }         \
  constexpr NAME##3 make_##NAME##3(T x, T y, T z) { return {x, y, z}; } \
  constexpr NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }

STAGES_SIMT_VECTORS(char, signed char, 2, 4)
STAGES_SIMT_VECTORS(uchar, unsigned char, 2, 4)
STAGES_SIMT_VECTORS(short, short, 4, 8)
STAGES_SIMT_VECTORS(ushort, unsigned short, 4, 8)
STAGES_SIMT_VECTORS(int, int, 8, 16)
STAGES_SIMT_VECTORS(uint, unsigned, 8, 16)
STAGES_SIMT_VECTORS(longlong, long long, 16, 16)
STAGES_SIMT_VECTORS(ulonglong, unsigned long long, 16, 16)
STAGES_SIMT_VECTORS(float, float, 8, 16)
STAGES_SIMT_VECTORS(double, double, 16, 16)
#undef STAGES_SIMT_VECTORS
#undef STAGES_SIMT_WHOLE

/// The shape of a grid or of a block; sizes left out are 1.
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
