#pragma once
// How kernels walk along the products of a row of C: over the entries of A's row, and for each of them over
// a row of B.

#include <source_location>

#include "common/gpu/cuda.hpp"
#include "common/matrix/types.hpp"

namespace stages::spgemm {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

/// A matrix without its values.
template <class Ptr>
struct Structure {
  Index rows = 0;
  Index cols = 0;
  const Ptr* row_ptr = nullptr;
  const Index* col_idx = nullptr;
};

template <class Ptr>
struct Structures {
  Structure<Ptr> a;
  Structure<Ptr> b;
};

template <class T, class Ptr>
struct Factors {
  CsrView<T, Ptr> a;
  CsrView<T, Ptr> b;

  STAGES_HD Structures<Ptr> structures() const {
    return {{a.rows, a.cols, a.row_ptr, a.col_idx}, {b.rows, b.cols, b.row_ptr, b.col_idx}};
  }
};

/// The rows of C that one kernel computes, in device memory.
struct RowList {
  const Index* rows = nullptr;
  Index count = 0;
};

/// Where results go: row i takes positions row_ptr[i] - base .. of both arrays.
template <class T>
struct Output {
  const Offset* row_ptr = nullptr;
  Offset base = 0;
  Index* col_idx = nullptr;
  T* values = nullptr;
};

/// Columns begin .. end - 1.
struct Slice {
  Index begin = 0;
  Index end = 0;
};

/// The first position in [from, to) whose column is not below `column`; `to` if there is none.
template <class Ptr>
__device__ Ptr first_not_below(const Index* col_idx, Ptr from, Ptr to, Index column) {
  while (from < to) {
    const Ptr middle = from + (to - from) / 2;
    if (col_idx[middle] < column) {
      from = middle + 1;
    } else {
      to = middle;
    }
  }
  return from;
}

/// The part of a row of B that lies in a slice.
template <class Ptr>
struct Piece {
  Ptr from = 0;
  Ptr to = 0;
};

template <bool kWhole, class Ptr>
__device__ Piece<Ptr> piece_of(const Structure<Ptr>& b, Index row, Slice slice) {
  Piece<Ptr> piece{b.row_ptr[row], b.row_ptr[row + 1]};
  if constexpr (!kWhole) {
    piece.from = first_not_below(b.col_idx, piece.from, piece.to, slice.begin);
    piece.to = first_not_below(b.col_idx, piece.from, piece.to, slice.end);
  }
  return piece;
}

/// Calls visit(column, product) for the products of row `row` of C that lie in the slice (kWhole: for all of
/// them), with all lanes of a warp. The rows of B come one after another, in the order of A's entries, and
/// between two of them the warp meets. Lanes that visit at the same time therefore hold different columns, so
/// visit may add to a place of its column without atomics, and each sum runs in the order of A's entries.
template <bool kWhole, class T, class Ptr, class Visit>
__device__ void walk_products(const Factors<T, Ptr>& f, Index row, Slice slice, unsigned lane, Visit visit) {
  const auto structure = f.structures();
  const Ptr end = f.a.row_ptr[row + 1];
  for (Ptr first = f.a.row_ptr[row]; first < end; first += static_cast<Ptr>(kWarp)) {
    Piece<Ptr> piece;
    T factor = 0;
    if (const Ptr e = first + static_cast<Ptr>(lane); e < end) {
      piece = piece_of<kWhole>(structure.b, f.a.col_idx[e], slice);
      factor = f.a.values[e];
    }
    const int entries = static_cast<int>(min(end - first, static_cast<Ptr>(kWarp)));
    // What the next row of B holds for this lane is on its way while the present one is added.
    Ptr next_at = __shfl_sync(kAllLanes, piece.from, 0) + static_cast<Ptr>(lane);
    Ptr next_to = __shfl_sync(kAllLanes, piece.to, 0);
    Index next_column = next_at < next_to ? f.b.col_idx[next_at] : 0;
    T next_value = next_at < next_to ? f.b.values[next_at] : T{0};
    for (int s = 0; s < entries; ++s) {
      const Ptr at = next_at, to = next_to;
      const Index column = next_column;
      const T value = next_value, scale = __shfl_sync(kAllLanes, factor, s);
      if (s + 1 < entries) {
        next_at = __shfl_sync(kAllLanes, piece.from, s + 1) + static_cast<Ptr>(lane);
        next_to = __shfl_sync(kAllLanes, piece.to, s + 1);
        next_column = next_at < next_to ? f.b.col_idx[next_at] : 0;
        next_value = next_at < next_to ? f.b.values[next_at] : T{0};
      }
      if (at < to) visit(column, scale * value);
      for (Ptr q = at + static_cast<Ptr>(kWarp); q < to; q += static_cast<Ptr>(kWarp)) {
        visit(f.b.col_idx[q], scale * f.b.values[q]);
      }
      __syncwarp();
    }
  }
}

/// How many lanes should share a row of B of that mean length: 4 to 32.
__device__ inline unsigned team_for(unsigned mean) {
  return mean >= 24 ? 32u : mean >= 12 ? 16u : mean >= 6 ? 8u : 4u;
}

/// Calls visit(column) for the products of row `row` of C that lie in the slice (kWhole: for all), in any
/// order and several rows of B at once. A warp of `warps` takes every warps-th group of 32 entries of A.
template <bool kWhole, class Ptr, class Visit>
__device__ void walk_columns(const Structures<Ptr>& f, Index row, Slice slice, unsigned warp, unsigned warps,
                             unsigned lane, Visit visit) {
  const Ptr end = f.a.row_ptr[row + 1];
  const Ptr step = static_cast<Ptr>(warps * kWarp);
  for (Ptr first = f.a.row_ptr[row] + static_cast<Ptr>(warp * kWarp); first < end; first += step) {
    Piece<Ptr> piece;
    if (const Ptr e = first + static_cast<Ptr>(lane); e < end) {
      piece = piece_of<kWhole>(f.b, f.a.col_idx[e], slice);
    }
    const unsigned entries = static_cast<unsigned>(min(end - first, static_cast<Ptr>(kWarp)));
    unsigned total = static_cast<unsigned>(min(piece.to - piece.from, static_cast<Ptr>(kWarp)));
    for (unsigned d = kWarp / 2; d > 0; d /= 2)
      total += __shfl_xor_sync(kAllLanes, total, static_cast<int>(d));
    const unsigned team = team_for(total / entries);
    for (unsigned s = 0; s < entries; s += kWarp / team) {
      // Lanes beyond the last entry hold an empty piece.
      const int source = static_cast<int>(s + lane / team);
      const Ptr to = __shfl_sync(kAllLanes, piece.to, source);
      Ptr q = __shfl_sync(kAllLanes, piece.from, source) + static_cast<Ptr>(lane % team);
      for (; q < to; q += static_cast<Ptr>(team)) visit(f.b.col_idx[q]);
    }
  }
}

/// The sum over the warp, in every lane.
template <class Number>
__device__ Number sum_over_warp(Number sum) {
  for (unsigned d = kWarp / 2; d > 0; d /= 2) sum += __shfl_xor_sync(kAllLanes, sum, static_cast<int>(d));
  return sum;
}

/// The sum over the lanes up to and with this one.
__device__ inline Index sum_up_to(Index sum, unsigned lane) {
  for (unsigned d = 1; d < kWarp; d *= 2) {
    const Index before = __shfl_up_sync(kAllLanes, sum, d);
    if (lane >= d) sum += before;
  }
  return sum;
}

/// Bits of the lanes before this one.
__device__ inline unsigned lanes_below(unsigned lane) {
  return (1u << lane) - 1u;
}

/// Lets a kernel be launched with so much dynamic shared memory; what every kernel may have needs no call.
template <class... P>
void allow_dynamic_bytes(void (*kernel)(P...), std::size_t bytes,
                         std::source_location where = std::source_location::current()) {
  constexpr std::size_t kAlways = 40 * 1024;  // with some static memory, 48 KiB
  if (bytes > kAlways) allow_shared_bytes(kernel, bytes, where);
}

}  // namespace stages::spgemm
