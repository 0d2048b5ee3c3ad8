#pragma once
// Loads of 16 bytes: a thread that takes four or eight neighbouring non-zeros at once needs a quarter or an
// eighth of the load instructions, and has more bytes in flight for each. The address must be aligned to 16
// bytes. The matrix is read once a product: its loads carry the streaming hint, which leaves x the caches.

#include "common/gpu/cuda.hpp"
#include "common/matrix/types.hpp"

namespace stages {

template <class T, int kCount>
struct Pack {
  T v[kCount];
};

__device__ inline Pack<float, 4> load_four(const float* p) {
  const float4 q = __ldcs(reinterpret_cast<const float4*>(p));
  return {{q.x, q.y, q.z, q.w}};
}
__device__ inline Pack<double, 4> load_four(const double* p) {
  const double2 low = __ldcs(reinterpret_cast<const double2*>(p));
  const double2 high = __ldcs(reinterpret_cast<const double2*>(p) + 1);
  return {{low.x, low.y, high.x, high.y}};
}

template <class T>
__device__ Pack<T, 8> load_eight(const T* p) {
  const Pack<T, 4> low = load_four(p), high = load_four(p + 4);
  return {{low.v[0], low.v[1], low.v[2], low.v[3], high.v[0], high.v[1], high.v[2], high.v[3]}};
}
/// Eight 16-bit columns, widened: they lie in pairs in four words.
__device__ inline Pack<unsigned, 8> load_eight(const std::uint16_t* p) {
  const uint4 q = __ldcs(reinterpret_cast<const uint4*>(p));
  return {{q.x & 0xffffu, q.x >> 16, q.y & 0xffffu, q.y >> 16, q.z & 0xffffu, q.z >> 16, q.w & 0xffffu,
           q.w >> 16}};
}

}  // namespace stages
