#pragma once
// The kernels of `balanced`, as functions that launch them, and what all of them take: a matrix cut into
// shares (partition.hpp), and a product. All are asynchronous. balanced.cu says which are launched when.

#include <algorithm>
#include <cstddef>

#include "07_spmm/fast/partition.hpp"
#include "07_spmm/row_major.hpp"
#include "07_spmm/stage.hpp"

namespace stages::spmm {

inline constexpr unsigned kSmallBlock = 128;  ///< threads; because a block leaves when its last group does

/// Blocks of a grid in y, a strip of `columns` each; no more than a grid may have: the strips beyond are for
/// another launch, or another turn.
inline unsigned strips_of(Index n_cols, unsigned columns) {
  return std::min(kMostStrips, blocks_for(n_cols, columns));
}

/// A product by a cut matrix.
template <class T>
struct Work {
  CutMatrix<T> a;
  SpmmArgs<T> m;
};

/// Columns [first, first + count) of `whole`, as a product of its own. `b`: B, as it begins with them.
template <class T>
Work<T> columns_of(Work<T> whole, Offset first, Offset count, const RowMajor<const T>& b) {
  whole.m.b = b;
  whole.m.c.data += first;
  whole.m.n_cols = static_cast<Index>(count);
  if (whole.a.slots != nullptr) whole.a.slots += first;
  return whole;
}

/// share[number], or an empty one if there are no more. By two loads, of 16 bytes and of 4.
__device__ inline Share load_share(const PartitionView& partition, unsigned number) {
  static_assert(offsetof(Share, begin) == 0 && offsetof(Share, length) == 8 && offsetof(Share, row) == 12);
  if (number >= partition.shares) return {};
  const Share* const from = partition.share + number;
  const longlong2 head = *reinterpret_cast<const longlong2*>(from);
  return {.begin = head.x,
          .length = static_cast<Index>(head.y),
          .row = static_cast<Index>(head.y >> 32),
          .slot = from->slot};
}

/// How `balanced` cuts, and how a group of lanes goes through a share; balanced.cu has the rules.
struct Granularity {
  Index strip = 0;  ///< columns of B and C that are done at once; a vector of them: few_columns.cu has all
  Index loads = 4;  ///< vectors that a lane asks for before it uses the first: 4 or 8
  bool vectors = false;  ///< of 16 bytes, which lanes take of B: its rows, or those of its copy, are aligned
  bool packed = false;   ///< B is copied strip by strip first (packed_b.hpp)
  Cut cut = {};
};

/// What a kernel makes of an SM: groups of lanes that are a block, blocks that it has room for.
struct Residency {
  unsigned groups = 0;
  unsigned blocks = 0;
};

// ---- strips.cu --------------------------------------------------------------------------------------------

/// Columns [first, first + count) of a product, whose strips of B lie `apart`, in elements; `dealt`: as
/// packed_b.hpp says.
template <class T>
struct Columns {
  Index first = 0;
  Index count = 0;
  const T* b = nullptr;  ///< row 0 of the first of them
  Index ld = 0;          ///< from a row of B to the next, in elements
  Offset apart = 0;
  bool dealt = false;
  /// May start before the kernel before it is done (launch.hpp), if that is one of this header's too. Never
  /// right behind one that writes B, such as the copy of packed_b.hpp, since B is read as a constant.
  bool early = false;
};

template <class T>
Residency residency_of_strips(const Granularity& g);

/// These columns of C, all but for the parts of cut rows that are left in slots.
template <class T>
void multiply_strips(const Work<T>& whole, const Columns<T>& columns, const Granularity& g,
                     cudaStream_t stream);

// ---- few_columns.cu ---------------------------------------------------------------------------------------

/// What its kernel makes of an SM, a warp being a group, as the rules count: so it is with 40 registers. For
/// more than two floats or one double it takes 48 on sm_90, and an SM has room for 10 blocks.
inline constexpr Residency kResidencyOfFewColumns = {.groups = kSmallBlock / kWarp, .blocks = 12};
/// Batches of 32 non-zeros that a warp asks for at once.
inline constexpr unsigned kThinAhead = 4;

/// The same for all columns of `work`, which are no more than 16 bytes of a row. `vectors`: rows of B hold 16
/// bytes, aligned; looked at only for 3 or 4 floats, or 2 doubles. `early`: as of Columns.
template <class T>
void multiply_few_columns(const Work<T>& work, bool vectors, bool early, cudaStream_t stream);

// ---- cut_rows.cu ------------------------------------------------------------------------------------------

/// How many counters add_cut_rows() needs.
std::size_t counters_of_cut_rows(const PartitionView& partition, Index n_cols);

/// Adds what lies in slots to C. `arrived`: the counters; all are 0, before and after.
template <class T>
void add_cut_rows(const Work<T>& work, unsigned* arrived, cudaStream_t stream);

}  // namespace stages::spmm
