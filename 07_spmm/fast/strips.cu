// Strips of columns: a group of lanes takes a share of the non-zeros, each lane some columns of the strip.
//
// A group of 4 to 32 lanes walks through its share from its first non-zero to its last. Its lanes hold the
// next 4 to 32 non-zeros, one each, and hand them to all by shuffles; for each the group asks for a strip of
// its row of B. A lane takes 4 floats of it at once (16 bytes), so 8 lanes do a row of 32 columns, and a warp
// works on four non-zeros at the same time. Where B is neither aligned to 16 bytes nor packed, each of 32
// lanes takes one to three columns, which lie 32 apart (of a narrow strip 8 or 16 lanes one each). Either way
// a lane asks for several rows of B before it adds the first: a gather takes some 800 clocks, and only what is
// under way hides that. An SM gets some 35 bytes a clock out of L2, so 220 rows of 128 bytes must be under way
// in it: 32 warps of 64 registers with 4 loads a lane have 512.
//
// Ends of rows are looked for once a batch, by a mask of all lanes: a batch without any, as most are if rows
// are long, is nothing but multiplying and adding. At an end the group stores its sums to C and takes the
// number of the next row.
//
// Strips are the outer dimension of the grid: all of the matrix is done for one of them before the next. So
// the caches hold a strip of B, not B, and A, read once per strip, is small beside the rows of B that it asks
// for.
//
// Input: a cut matrix; B by rows, as it lies or packed. Cost: per strip all of A (4 + sizeof(T) bytes a
// non-zero), a strip of a row of B for each non-zero, and C once.

#include "07_spmm/fast/kernels.hpp"
#include "07_spmm/fast/packed_b.hpp"
#include "07_spmm/fast/vectors.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kRegistersOfSm = 65536;  ///< of 32 bits

/// How a group of kLanes takes a strip: a lane has kRepeats times kVector neighbouring columns, and asks for
/// those of kAhead rows of B at once. A form is a type, so that the compiler unrolls its loops and keeps all
/// that a lane has in registers.
template <class T, unsigned kLanes_, unsigned kVector_, unsigned kRepeats_, unsigned kAhead_>
struct StripForm {
  using Value = T;
  static constexpr unsigned kLanes = kLanes_, kVector = kVector_, kRepeats = kRepeats_, kAhead = kAhead_;
  static constexpr unsigned kSums = kVector * kRepeats;  ///< columns of a lane
  static constexpr unsigned kApart = kLanes * kVector;   ///< from one repeat to the next
  static constexpr unsigned kStrip = kLanes * kSums;
  static constexpr unsigned kGroups = kSmallBlock / kLanes;  ///< of a block
  /// What a thread needs in registers: its part of the rows of B and of the sums, and all else. With so many
  /// no form was seen to spill any (nvcc 13, sm_80 and sm_90).
  static constexpr unsigned kRegisters = 32 + 8 * kRepeats + (kAhead + 1) * kSums * sizeof(T) / 4 +
                                         (sizeof(T) == 8 && kAhead * kSums > 8 ? 12 : 0);
  /// The blocks that an SM then has room for.
  static constexpr unsigned kBlocks = kRegistersOfSm / (kSmallBlock * kRegisters);
  /// A bit for each non-zero of the first batch of each group of a warp.
  static constexpr unsigned kFirstBatches =
      ((1u << kAhead) - 1) * (kAllLanes / (kAllLanes >> (kWarp - kLanes)));
  /// Whether a packed B may have dealt it the columns (packed_b.hpp).
  static constexpr bool kMayBeDealt = kVector > 1 && kStrip >= kVectorStrip;
  static_assert(kLanes % kAhead == 0 && kLanes >= 4);
};

/// Calls `go` with the StripForm of `g`. Without vectors a lane has one column, two or three, which lie 32
/// apart.
template <class T, class Go>
void with_form(const Granularity& g, Go&& go) {
  constexpr unsigned kVector = kVectorLength<T>;
  if (!g.vectors) {
    if (g.strip == 8) go(StripForm<T, 8, 1, 1, 8>{});
    if (g.strip == 16) go(StripForm<T, 16, 1, 1, 8>{});
    if (g.strip == 32) go(StripForm<T, 32, 1, 1, 8>{});
    if (g.strip == 64) go(StripForm<T, 32, 1, 2, 8>{});
    if constexpr (kVector == 4) {
      if (g.strip == 96) go(StripForm<T, 32, 1, 3, 4>{});
    }
    return;
  }
  if (g.strip == 8) go(StripForm<T, 4, 2, 1, 4>{});
  if constexpr (kVector == 4) {
    if (g.strip == 16) go(StripForm<T, 4, kVector, 1, 4>{});
  }
  if (g.strip == 8 * kVectorLength<T>)
    g.loads == 4 ? go(StripForm<T, 8, kVector, 1, 4>{}) : go(StripForm<T, 8, kVector, 1, 8>{});
  if (g.strip == 16 * kVectorLength<T>)
    g.loads == 4 ? go(StripForm<T, 16, kVector, 1, 4>{}) : go(StripForm<T, 16, kVector, 1, 8>{});
}

template <class T>
struct Nonzero {
  Index column = 0;
  T value = 0;
};

/// Which columns of C a lane of a strip sums up. kDealt: packed_b.hpp.
template <class F, bool kDealt>
struct Lane {
  static_assert(!kDealt || F::kVector > 1);
  static constexpr unsigned kFirst = kDealt ? 1 : F::kVector;  ///< from one lane's first column to the next's
  static constexpr unsigned kNext = kDealt ? F::kLanes : 1;    ///< from a column of a vector to the next
  /// Sum s is of the lane's first column and so many more.
  static constexpr unsigned beyond(unsigned s) { return s / F::kVector * F::kApart + s % F::kVector * kNext; }
};

/// Writes a lane's sums to `to`, a row. Elements beyond column n_cols are not touched.
template <class F, bool kDealt, class T = typename F::Value>
__device__ void store_sums(T* to, unsigned column, unsigned n_cols, bool aligned, const T (&sums)[F::kSums]) {
#pragma unroll
  for (unsigned r = 0; r < F::kRepeats; ++r) {
    const unsigned first = column + r * F::kApart;
    if (!kDealt && aligned && first + F::kVector <= n_cols) {
      store_vector<F::kVector>(to + first, sums + r * F::kVector);
    } else {
#pragma unroll
      for (unsigned s = r * F::kVector; s < (r + 1) * F::kVector; ++s) {
        const unsigned at = column + Lane<F, kDealt>::beyond(s);
        if (at < n_cols) to[at] = sums[s];
      }
    }
  }
}

/// C(row, the lane's columns) = alpha sums + beta C.
template <class F, bool kDealt, class T = typename F::Value>
__device__ void finish_row(const SpmmArgs<T>& m, Index row, unsigned column, const T (&sums)[F::kSums]) {
  T* const to = m.c.row(row);
  const auto n_cols = static_cast<unsigned>(m.n_cols);
  T out[F::kSums];
#pragma unroll
  for (unsigned s = 0; s < F::kSums; ++s) {
    const unsigned at = column + Lane<F, kDealt>::beyond(s);
    out[s] = m.alpha * sums[s];
    if (m.beta != T{0} && at < n_cols) out[s] += m.beta * to[at];
  }
  store_sums<F, kDealt>(to, column, n_cols, static_cast<unsigned>(m.c.ld) % F::kVector == 0, out);
}

/// A batch of non-zeros, and what a lane has loaded of their rows of B.
template <class F, class T = typename F::Value>
struct Batch {
  T values[F::kAhead];
  T b[F::kAhead][F::kSums];

  /// Asks for the rows of B of the non-zeros `first` .. of the group, which its lanes hold in `mine`; `left`
  /// of them, counted from its first, exist. `from`: B at the lane's first column; `columns`: how many there
  /// are from there on.
  __device__ void load(const Nonzero<T>& mine, unsigned first, int left, const T* from, Index ld,
                       int columns) {
#pragma unroll
    for (unsigned u = 0; u < F::kAhead; ++u) {
      const auto k = static_cast<int>(first + u);
      const Index column = __shfl_sync(kAllLanes, mine.column, k, F::kLanes) & kColumnBits;
      values[u] = __shfl_sync(kAllLanes, mine.value, k, F::kLanes);
#pragma unroll
      for (unsigned r = 0; r < F::kRepeats; ++r) {
        if (k < left && columns > static_cast<int>(r * F::kApart)) {
          load_vector<F::kVector>(from + Offset{column} * ld + r * F::kApart, b[u] + r * F::kVector);
        }
      }
    }
  }
  __device__ void add(unsigned u, T (&sums)[F::kSums]) const {
#pragma unroll
    for (unsigned s = 0; s < F::kSums; ++s) sums[s] += values[u] * b[u][s];
  }
};

/// Share `number`, that of the lane's group, for the lane's columns from `column` on, of which B's row 0 has
/// its own at `from`. All lanes of a warp come along as long as one of its groups has something to do, because
/// they shuffle together.
template <class F, bool kDealt, class T = typename F::Value>
__device__ void multiply_share(const CutMatrix<T>& a, const SpmmArgs<T>& m, const T* from, unsigned column,
                               unsigned number) {
  constexpr unsigned kAhead = F::kAhead;
  const unsigned lane = threadIdx.x % F::kLanes, group_shift = threadIdx.x % kWarp - lane;
  const Share share = load_share(a.partition, number);
  const int longest = warp_max(share.length);
  const auto nonzero = [&](int k) {
    const Offset at = share.begin + k;
    return k < share.length ? Nonzero<T>{__ldcs(a.columns + at), __ldcs(a.values + at)} : Nonzero<T>{};
  };
  const int columns = m.n_cols - static_cast<int>(column);
  const Index* next_row = a.partition.rows + share.row;
  Index row = *next_row;
  T sums[F::kSums] = {};
  Batch<F> batch = {};
  Nonzero<T> next = nonzero(static_cast<int>(lane));
  wait_for_earlier_kernel();
  for (int base = 0; base < longest; base += F::kLanes) {
    const Nonzero<T> mine = next;
    next = nonzero(base + static_cast<int>(F::kLanes + lane));
    const unsigned all_ends = __ballot_sync(kAllLanes, mine.column < 0), ends = all_ends >> group_shift;
    const int left = share.length - base;
#pragma unroll
    for (unsigned first = 0; first < F::kLanes; first += kAhead) {
      if (base + static_cast<int>(first) >= longest) break;
      batch.load(mine, first, left, from, m.b.ld, columns);
      if ((all_ends & (F::kFirstBatches << first)) == 0) {
#pragma unroll
        for (unsigned u = 0; u < kAhead; ++u) {
          if (static_cast<int>(first + u) < left) batch.add(u, sums);
        }
        continue;
      }
#pragma unroll
      for (unsigned u = 0; u < kAhead; ++u) {
        if (static_cast<int>(first + u) < left) batch.add(u, sums);
        if ((ends & (1u << (first + u))) == 0) continue;
        finish_row<F, kDealt>(m, row, column, sums);
#pragma unroll
        for (unsigned s = 0; s < F::kSums; ++s) sums[s] = T{0};
        row = *++next_row;
      }
    }
  }
  const auto n_cols = static_cast<unsigned>(m.n_cols);
  if (share.slot >= 0) {
    store_sums<F, kDealt>(a.slots + Offset{share.slot} * a.ld_slots, column, n_cols, true, sums);
  }
}

/// So many empty rows a group sets: a block for each few of them would be mostly beginning and ending.
constexpr unsigned kEmptyRows = 8;

/// The first `blocks` multiply; those after them set empty rows. Strips of B lie `gap` elements further apart
/// than they would side by side.
template <class F, bool kDealt, class T = typename F::Value>
__global__ void __launch_bounds__(kSmallBlock, blocks_of_sm(F::kBlocks, kSmallBlock))
    multiply(CutMatrix<T> a, SpmmArgs<T> m, Offset gap, unsigned blocks) {
  let_next_kernel_start();
  const unsigned lane = threadIdx.x % F::kLanes, group = threadIdx.x / F::kLanes;
  const unsigned column = blockIdx.y * F::kStrip + lane * Lane<F, kDealt>::kFirst;
  if (blockIdx.x < blocks) {
    const unsigned place = blockIdx.y * F::kStrip + lane * F::kVector;
    const unsigned number = blockIdx.x * F::kGroups + group;
    multiply_share<F, kDealt>(a, m, m.b.data + blockIdx.y * gap + place, column, number);
  } else {
    const unsigned first = (blockIdx.x - blocks) * F::kGroups * kEmptyRows + group;
    const T zeros[F::kSums] = {};
    wait_for_earlier_kernel();
#pragma unroll
    for (unsigned u = 0; u < kEmptyRows; ++u) {
      const unsigned number = first + u * F::kGroups;
      if (number < a.partition.empty_rows) finish_row<F, kDealt>(m, a.partition.empty[number], column, zeros);
    }
  }
}

/// The columns from columns.first + first on, as many as a grid has strips for; `first`: whole strips.
template <class F, class T>
void launch_form(const Work<T>& whole, const Columns<T>& columns, Offset first, cudaStream_t stream) {
  const RowMajor<const T> b{columns.b + first / F::kStrip * columns.apart, columns.ld};
  const Work<T> work = columns_of(whole, columns.first + first, columns.count - first, b);
  const PartitionView& view = work.a.partition;
  const unsigned blocks = blocks_for(view.shares, F::kGroups);
  const auto start = [&](auto kernel) {
    launch(kernel,
           {.grid = {blocks + blocks_for(view.empty_rows, F::kGroups * kEmptyRows),
                     strips_of(work.m.n_cols, F::kStrip)},
            .block = kSmallBlock,
            .stream = stream,
            .early = columns.early && can_launch_early()},
           work.a, work.m, columns.apart - Offset{F::kStrip}, blocks);
  };
  if constexpr (F::kMayBeDealt) {
    if (columns.dealt) return start(multiply<F, true>);
  }
  start(multiply<F, false>);
}

}  // namespace

template <class T>
Residency residency_of_strips(const Granularity& g) {
  Residency residency;
  with_form<T>(g, [&](auto form) {
    using F = decltype(form);
    residency = {.groups = F::kGroups, .blocks = F::kBlocks};
  });
  return residency;
}

template <class T>
void multiply_strips(const Work<T>& whole, const Columns<T>& columns, const Granularity& g,
                     cudaStream_t stream) {
  with_form<T>(g, [&](auto form) {
    using F = decltype(form);
    for (Offset first = 0; first < columns.count; first += Offset{kMostStrips} * F::kStrip)
      launch_form<F>(whole, columns, first, stream);
  });
}

STAGES_FOR_VALUES(residency_of_strips)
STAGES_FOR_VALUES(multiply_strips)

}  // namespace stages::spmm
