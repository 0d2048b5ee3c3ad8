#pragma once
// Loads and stores of kVector neighbours at once: 1 number, or the 2 floats of 8 bytes, or the 4 floats or 2
// doubles of 16 bytes, which must be aligned to that. A row of 32 floats then takes 8 lanes one load each
// instead of 32. B is loaded to stay in the caches; C is not read again, and its stores carry the streaming
// hint, which leaves the caches to B.

#include "07_spmm/row_major.hpp"

namespace stages::spmm {

/// kVector numbers by one `load`, which gets a pointer to a number or to a vector type.
template <unsigned kVector, class T, class Load>
__device__ void load_by(Load load, const T* from, T* to) {
  if constexpr (kVector == 1) {
    to[0] = load(from);
  } else if constexpr (sizeof(T) == 4 && kVector == 2) {
    const float2 v = load(reinterpret_cast<const float2*>(from));
    to[0] = v.x, to[1] = v.y;
  } else if constexpr (sizeof(T) == 4) {
    static_assert(kVector == 4);
    const float4 v = load(reinterpret_cast<const float4*>(from));
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
  } else {
    static_assert(kVector == 2);
    const double2 v = load(reinterpret_cast<const double2*>(from));
    to[0] = v.x, to[1] = v.y;
  }
}

/// Of what no one writes while the kernel runs.
template <unsigned kVector, class T>
__device__ void load_vector(const T* from, T* to) {
  load_by<kVector>([](const auto* p) { return __ldg(p); }, from, to);
}

/// Of what may have been written since the kernel began: an ordinary load.
template <unsigned kVector, class T>
__device__ void read_vector(const T* from, T* to) {
  load_by<kVector>([](const auto* p) { return *p; }, from, to);
}

template <unsigned kVector, class T>
__device__ void store_vector(T* to, const T* from) {
  if constexpr (kVector == 1) {
    __stcs(to, from[0]);
  } else if constexpr (sizeof(T) == 4 && kVector == 2) {
    __stcs(reinterpret_cast<float2*>(to), float2{from[0], from[1]});
  } else if constexpr (sizeof(T) == 4) {
    __stcs(reinterpret_cast<float4*>(to), float4{from[0], from[1], from[2], from[3]});
  } else {
    __stcs(reinterpret_cast<double2*>(to), double2{from[0], from[1]});
  }
}

/// C = alpha sums + beta C, in columns `column` .. column + kVector - 1 of a row, as far as there are any.
template <unsigned kVector, class T>
__device__ void finish_row(const SpmmArgs<T>& m, Index row, Offset column, const T (&sums)[kVector]) {
  T* const to = m.c.row(row) + column;
  T out[kVector];
#pragma unroll
  for (unsigned v = 0; v < kVector; ++v) {
    out[v] = m.alpha * sums[v];
    if (m.beta != T{0} && column + v < m.n_cols) out[v] += m.beta * to[v];
  }
  if (column + kVector <= m.n_cols && static_cast<unsigned>(m.c.ld) % kVector == 0) {
    store_vector<kVector>(to, out);
    return;
  }
#pragma unroll
  for (unsigned v = 0; v < kVector; ++v) {
    if (column + v < m.n_cols) to[v] = out[v];
  }
}

}  // namespace stages::spmm
