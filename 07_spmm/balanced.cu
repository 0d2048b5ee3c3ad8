// SpMM in equal shares of non-zeros, strip by strip, without atomics.
//
// The idea, in seven parts.
//
// Shares. The non-zeros are cut into shares of about the same number, whatever the rows. A boundary moves
// back to the beginning of its row if that is near; else it cuts the row in two. Prepare cuts, on the device
// (partition.hpp). A group of 8 to 32 lanes walks through a share from its first non-zero to its last.
//
// Rows. A group need not know row pointers: the sign bit of a column says that its row ends there. The group
// then stores its sums to C, as nobody else has a part in that row's end, and takes the next number from the
// list of rows that are not empty, which it has loaded in good time. Empty rows are set by blocks of their
// own.
//
// Cut rows. What a group has summed up of a row that goes on in the next share, it leaves in a slot. A
// second, small kernel adds these parts to the row, always in the same order. So no sum is made by atomics,
// nothing is to be set to zero before, and the bits are the same in every run. A warp takes a row, a block
// one with many parts; and of a hub row, which may have thousands, each block adds up a chunk, and the one
// that is the last to be done, as a counter says, the sums of these. The kernel's blocks are sent to the SMs
// while the last shares are still under way, and wait there: beside products of 30 us a launch's 2 us would
// show.
//
// Vectors. A lane takes 4 floats of a row of B at once (16 bytes), so 8 lanes do a row of 32 columns, and a
// warp works on four non-zeros at the same time. Where the rows of B are not aligned to 16 bytes, and it is
// not packed, 32 lanes take a column each. Either way a lane asks for several rows of B before it adds the
// first: a gather takes 600 to 800 clocks, and only what is under way hides that. An SM gets 40 bytes a clock
// out of L2 at best, so 250 rows of 128 bytes must be under way in it: 32 warps of 64 registers with 4 loads
// a lane have 512.
//
// Ends of rows are looked for once a batch, by a mask of all lanes: where a batch has none, as most have not
// if rows are long, there is nothing but multiplying and adding.
//
// Strips. 64 columns are done at once, and all of the matrix for one strip before the next (strips are the
// outer dimension of the grid): so what is in the caches is a strip of B, not B, and A, which is read once
// per strip, is small beside the rows of B that it asks for.
//
// Packing. What a gather costs is the number of lines of 128 bytes that it touches. Rows of 33 floats lie in
// two of them where rows of 32 lie in one, and of 100 floats a strip of 64 lies in three in place of two. If
// there are so many non-zeros for each row of B that it pays, B is first copied strip by strip into arrays
// whose rows begin with lines; what is left beside whole lines goes into an array of its own, whose rows
// share sectors (packed_b.hpp). Pieces of different widths are different launches, all strips of a width are
// one. Rows of C stay where they are: if vectors do not fit them, the copy has dealt the columns to the lanes
// in such a way that neighbouring lanes still store neighbours. A piece of up to 16 bytes a row would leave
// most lanes idle: there a lane has a non-zero of its own, and a segmented scan makes sums of rows of them.
//
// Columns that are left beside whole strips, if they are half a strip at most, are done by a kernel of their
// own with narrower groups: with 4 columns in 68, four groups of a warp read four rows of B at a time, not
// 31 lanes none. Where B is neither aligned nor packed, the last strip takes them along, three columns a lane
// in place of two; but up to 16 bytes beside whole warps are, there too, a lane's with a non-zero of its own.
//
// Near-dense matrices are a case of their own: rows are so long that a share passes over a small part of B
// only. There the shares are sorted by the band of columns in which they begin, so that what runs on an SM at
// a time reads about the same part of B, of which L1 then holds more.
//
// Input: any CSR matrix, any number of columns. Cost: nnz x n_cols multiplications; per strip all of A (4 +
// sizeof(T) bytes a non-zero) and a row of B for each non-zero; C once; where B is packed, B once more and
// its copy. Memory: 32 bytes a share, 4 a row, a row of C for each share that cuts one, and the copy.
//
// Sources: equal shares of non-zeros are those of D. Merrill and M. Garland ("Merge-based parallel sparse
// matrix-vector multiplication", SC 2016), and for SpMM of C. Yang, A. Buluc and J. D. Owens ("Design
// principles for sparse matrix multiplication on the GPU", Euro-Par 2018); flags at the ends of rows are
// segmented sums' (G. E. Blelloch, M. A. Heroux and M. Zagha, CMU-CS-93-173).

#include "07_spmm/balanced.hpp"

#include <cmath>
#include <limits>

#include "07_spmm/vectors.hpp"
#include "common/gpu/facts.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr unsigned kSmallBlock = 128;    ///< because a block leaves when its last group does
constexpr unsigned kMostBlocks = 65535;  ///< of a grid in y
constexpr unsigned kFixUpBlock = 512;    ///< so that a block adds up a chunk in one trip to memory, or a few
constexpr unsigned kFixUpWarps = kFixUpBlock / kWarp;
constexpr Index kLongRows = 16;           ///< non-zeros of a mean row from which most batches of 8 end none
constexpr Index kVeryLongRows = 256;      ///< non-zeros of a mean row, twice the share of very long rows
constexpr Index kNearDenseRun = 64;       ///< non-zeros of a row, of whose columns the near-dense rule asks
constexpr Index kWideStrip = 128;         ///< columns, on 16 lanes
constexpr double kLinesOfCopy = 7;        ///< of B that take as long to gather as to copy one
constexpr unsigned kThinAhead = 4;        ///< batches of a few columns that a warp asks for at once
constexpr unsigned kThinBlocks = 12;      ///< of its kernel that an SM takes
constexpr Index kFewParts = 32;           ///< of a cut row: one warp adds them; more are a block's work
constexpr Index kManyParts = 2 * kChunk;  ///< and more than these are several blocks' work

/// How a group of kLanes takes a strip: a lane has kRepeats times kVector neighbouring columns, and asks for
/// those of kAhead rows of B at once.
template <class T, unsigned kLanes_, unsigned kVector_, unsigned kRepeats_, unsigned kAhead_,
          unsigned kBlock_ = kSmallBlock>
struct Form {
  using Value = T;
  static constexpr unsigned kLanes = kLanes_, kVector = kVector_, kRepeats = kRepeats_, kAhead = kAhead_;
  static constexpr unsigned kBlock = kBlock_;
  static constexpr unsigned kSums = kVector * kRepeats;  ///< columns of a lane
  static constexpr unsigned kApart = kLanes * kVector;   ///< from one repeat to the next
  static constexpr unsigned kStrip = kLanes * kSums;
  static constexpr unsigned kGroups = kBlock / kLanes;  ///< of a block
  /// What a thread needs in registers: its part of the rows of B and of the sums, and all else. With this
  /// many nothing is spilled; and the blocks that an SM then has room for.
  static constexpr unsigned kRegisters = 32 + 8 * kRepeats + (kAhead + 1) * kSums * sizeof(T) / 4 +
                                         (sizeof(T) == 8 && kAhead * kSums > 8 ? 12 : 0);
  static constexpr unsigned kBlocks = 65536 / (kBlock * kRegisters);
  /// A bit for each non-zero of the first batch of each group of a warp.
  static constexpr unsigned kFirstBatch = (1u << kAhead) - 1;
  static constexpr unsigned kFirstBatches = kLanes == 8    ? kFirstBatch * 0x01010101u
                                            : kLanes == 16 ? kFirstBatch * 0x00010001u
                                                           : kFirstBatch;
  static_assert(kLanes % kAhead == 0 && kLanes >= 8);
};

template <class T>
struct Matrix {
  PartitionView partition;
  const Index* columns = nullptr;  ///< with the ends of rows marked
  const T* values = nullptr;
  T* slots = nullptr;  ///< sums of parts of rows, by rows
  Index ld_slots = 0;  ///< whole vectors
};

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
__device__ void finish_row(const Product<T>& m, Index row, unsigned column, const T (&sums)[F::kSums]) {
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

/// The share of the lane's group, for the lane's columns from `column` on, of which B's row 0 has its own at
/// `from`. All lanes of a warp come along as long as one of its groups has something to do, because they
/// shuffle together.
template <class F, bool kDealt, class T = typename F::Value>
__device__ void multiply_share(const Matrix<T>& a, const Product<T>& m, const T* from, unsigned column) {
  constexpr unsigned kAhead = F::kAhead;
  const unsigned lane = threadIdx.x % F::kLanes, group_shift = threadIdx.x % kWarp - lane;
  const unsigned number = blockIdx.x * F::kGroups + threadIdx.x / F::kLanes;
  const Share share = number < a.partition.shares ? a.partition.share[number] : Share{};
  const int longest = __reduce_max_sync(kAllLanes, share.length);
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
  if (share.slot < 0) return;
  T* const to = a.slots + Offset{share.slot} * a.ld_slots;
  store_sums<F, kDealt>(to, column, static_cast<unsigned>(m.n_cols), true, sums);
}

/// The blocks up to `share_blocks` multiply; those after them set empty rows, one a group. Strips of B lie
/// `gap` elements further apart than they would side by side.
template <class F, bool kDealt, class T = typename F::Value>
__global__ void __launch_bounds__(F::kBlock, F::kBlocks)
    multiply(Matrix<T> a, Product<T> m, Offset gap, unsigned share_blocks) {
  let_next_kernel_start();
  const unsigned lane = threadIdx.x % F::kLanes;
  const unsigned column = blockIdx.y * F::kStrip + lane * Lane<F, kDealt>::kFirst;
  if (blockIdx.x < share_blocks) {
    const unsigned place = blockIdx.y * F::kStrip + lane * F::kVector;
    multiply_share<F, kDealt>(a, m, m.b.data + blockIdx.y * gap + place, column);
  } else {
    const unsigned number = (blockIdx.x - share_blocks) * F::kGroups + threadIdx.x / F::kLanes;
    const T zeros[F::kSums] = {};
    wait_for_earlier_kernel();
    if (number < a.partition.empty_rows) finish_row<F, kDealt>(m, a.partition.empty[number], column, zeros);
  }
}

// ---- a few columns ----------------------------------------------------------------------------------------

/// A row of B of up to kColumns numbers, `count` of them there: by one load if they are a vector (kVector),
/// as where B is packed.
template <unsigned kColumns, unsigned kVector, class T>
__device__ void load_thin(const T* from, Index count, T* to) {
  if constexpr (kVector == kColumns) {
    load_vector<kVector>(from, to);
  } else {
#pragma unroll
    for (unsigned v = 0; v < kColumns; ++v) {
      if (static_cast<Index>(v) < count) to[v] = __ldg(from + v);
    }
  }
}

template <unsigned kColumns, class T>
__device__ void finish_thin_row(const Product<T>& m, Index row, const T (&sums)[kColumns]) {
  T* const to = m.c.row(row);
#pragma unroll
  for (unsigned v = 0; v < kColumns; ++v) {
    if (static_cast<Index>(v) >= m.n_cols) break;
    to[v] = m.alpha * sums[v] + (m.beta != T{0} ? m.beta * to[v] : T{0});
  }
}

/// What a warp has of 32 non-zeros, a lane one.
template <unsigned kColumns, class T>
struct ThinBatch {
  Index column = 0;
  T sums[kColumns] = {};  ///< the products, then the sums within rows up to the lane
};

/// Products become sums of rows, by a segmented scan. `carry`: the sum of the row that goes on; `row`: the
/// number of the first row that ends here.
template <unsigned kColumns, class T>
__device__ void finish_thin_batch(const Product<T>& m, ThinBatch<kColumns, T>& batch, T (&carry)[kColumns],
                                  const Index*& row) {
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned ends = __ballot_sync(kAllLanes, batch.column < 0), before = ends & ((1u << lane) - 1u);
  const unsigned head = before == 0 ? 0 : kWarp - static_cast<unsigned>(__clz(static_cast<int>(before)));
  const Index ending = batch.column < 0 ? row[__popc(before)] : 0;
#pragma unroll
  for (unsigned v = 0; v < kColumns; ++v) {
    T& sum = batch.sums[v];
    if (lane == 0) sum += carry[v];
#pragma unroll
    for (unsigned d = 1; d < kWarp; d *= 2) {
      const T other = __shfl_up_sync(kAllLanes, sum, d);
      if (lane >= head + d) sum += other;
    }
    const T last = __shfl_sync(kAllLanes, sum, static_cast<int>(kWarp - 1));
    carry[v] = (ends >> (kWarp - 1)) != 0 ? T{0} : last;
  }
  if (batch.column < 0) finish_thin_row(m, ending, batch.sums);
  row += __popc(ends);
}

/// A share, by one warp, which asks for several batches of rows of B before it adds the first.
template <unsigned kColumns, unsigned kVector, class T>
__device__ void multiply_thin_share(const Matrix<T>& a, const Product<T>& m, unsigned number) {
  const unsigned lane = threadIdx.x % kWarp;
  const Share share = number < a.partition.shares ? a.partition.share[number] : Share{};
  const Index* row = a.partition.rows + share.row;
  T carry[kColumns] = {};
  for (int base = 0; base < share.length; base += static_cast<int>(kThinAhead * kWarp)) {
    ThinBatch<kColumns, T> batches[kThinAhead];
    T values[kThinAhead] = {};
#pragma unroll
    for (unsigned u = 0; u < kThinAhead; ++u) {
      const int k = base + static_cast<int>(u * kWarp + lane);
      if (k >= share.length) continue;
      batches[u].column = __ldcs(a.columns + share.begin + k);
      values[u] = __ldcs(a.values + share.begin + k);
    }
#pragma unroll
    for (unsigned u = 0; u < kThinAhead; ++u) {
      if (base + static_cast<int>(u * kWarp + lane) < share.length) {
        load_thin<kColumns, kVector>(m.b.row(batches[u].column & kColumnBits), m.n_cols, batches[u].sums);
      }
#pragma unroll
      for (unsigned v = 0; v < kColumns; ++v) batches[u].sums[v] *= values[u];
    }
#pragma unroll
    for (unsigned u = 0; u < kThinAhead; ++u) {
      if (base + static_cast<int>(u * kWarp) < share.length) finish_thin_batch(m, batches[u], carry, row);
    }
  }
  if (share.slot < 0 || lane > 0) return;
#pragma unroll
  for (unsigned v = 0; v < kColumns; ++v) {
    if (static_cast<Index>(v) < m.n_cols) a.slots[Offset{share.slot} * a.ld_slots + v] = carry[v];
  }
}

/// What multiply() does, for up to 16 bytes of a row of B: lanes side by side would idle.
template <unsigned kColumns, unsigned kVector, class T>
__global__ void __launch_bounds__(kSmallBlock)
    multiply_thin(Matrix<T> a, Product<T> m, unsigned share_blocks) {
  let_next_kernel_start();
  wait_for_earlier_kernel();
  if (blockIdx.x < share_blocks) {
    multiply_thin_share<kColumns, kVector>(a, m, blockIdx.x * (kSmallBlock / kWarp) + threadIdx.x / kWarp);
  } else {
    const unsigned number = (blockIdx.x - share_blocks) * kSmallBlock + threadIdx.x;
    const T zeros[kColumns] = {};
    if (number < a.partition.empty_rows) finish_thin_row(m, a.partition.empty[number], zeros);
  }
}

// ---- cut rows ---------------------------------------------------------------------------------------------

/// Columns `column` .. column + kVector - 1 of slots slot_of(begin) .. slot_of(end - 1), added up in this
/// order. A lane asks for some of them before it adds the first.
template <unsigned kVector, class T, class SlotOf>
__device__ void sum_slots(const Matrix<T>& a, Index begin, Index end, SlotOf slot_of, Offset column,
                          T (&sums)[kVector]) {
  constexpr Index kAtOnce = kVector == 1 ? 8 : 4;
#pragma unroll
  for (unsigned v = 0; v < kVector; ++v) sums[v] = T{0};
  for (Index first = begin; first < end; first += kAtOnce) {
    T parts[kAtOnce][kVector] = {};
#pragma unroll
    for (Index u = 0; u < kAtOnce; ++u) {
      if (first + u >= end) break;
      read_vector<kVector>(a.slots + Offset{slot_of(first + u)} * a.ld_slots + column, parts[u]);
    }
#pragma unroll
    for (Index u = 0; u < kAtOnce; ++u) {
#pragma unroll
      for (unsigned v = 0; v < kVector; ++v) sums[v] += parts[u][v];
    }
  }
}

/// The same for slot_of(0) .. slot_of(count - 1), by all warps of the block: each adds up a stretch of them,
/// and the first, which is told the result, those sums. A column beyond the last has no slots.
template <unsigned kVector, class T, class SlotOf>
__device__ void sum_by_block(const Matrix<T>& a, Index count, SlotOf slot_of, bool has_column, Offset column,
                             T (&sums)[kVector]) {
  __shared__ T of_warps[kFixUpWarps][kWarp * kVector];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const Index each = (count + Index{kFixUpWarps} - 1) / Index{kFixUpWarps};
  const Index begin = min(count, static_cast<Index>(warp) * each), end = min(count, begin + each);
  sum_slots<kVector>(a, begin, has_column ? end : begin, slot_of, column, sums);
#pragma unroll
  for (unsigned v = 0; v < kVector; ++v) of_warps[warp][v * kWarp + lane] = sums[v];
  __syncthreads();
#pragma unroll
  for (unsigned v = 0; v < kVector; ++v) {
    sums[v] = T{0};
    for (unsigned w = 0; warp == 0 && w < kFixUpWarps; ++w) sums[v] += of_warps[w][v * kWarp + lane];
  }
  __syncthreads();
}

template <unsigned kVector, class T>
__device__ void add_to_row(T* to, T alpha, const T (&sums)[kVector]) {
  T out[kVector];
  read_vector<kVector>(to, out);
#pragma unroll
  for (unsigned v = 0; v < kVector; ++v) out[v] += alpha * sums[v];
  store_vector<kVector>(to, out);
}

/// A cut row: its parts are in slots [begin, end). If these are too many for one block, each chunk that
/// begins among them is another's.
struct Parts {
  Index row = 0;
  Index begin = 0;
  Index end = 0;

  __device__ bool are_few() const { return end - begin <= kFewParts; }
  __device__ bool are_for_one_block() const { return end - begin <= kManyParts; }
  __device__ Index blocks() const {
    return are_for_one_block() ? 1 : 1 + (end - 1) / kChunk - begin / kChunk;
  }
  /// The first slot of block k.
  __device__ Index first_of(Index k) const { return k == 0 ? begin : (begin / kChunk + k) * kChunk; }
};

__device__ inline Parts parts_of(const PartitionView& partition, unsigned k) {
  if (k >= partition.split_rows) return {};
  const SplitRow row = partition.split[k];
  return {row.row, row.first_slot, partition.split[k + 1].first_slot};
}

/// Block k's part in a row with many parts. Where there are several blocks, each leaves its sum in its first
/// slot, and the one that comes last, which `arrived` says, adds up these, always in the same order. Then
/// `arrived` is 0 again.
template <unsigned kVector, class T>
__device__ void add_many_parts(const Matrix<T>& a, const Product<T>& m, const Parts& parts, Index k,
                               Offset column, unsigned* arrived) {
  const bool has_column = column < m.n_cols, is_first_warp = threadIdx.x < kWarp;
  const Index blocks = parts.blocks(), begin = parts.first_of(k);
  const Index end = k + 1 < blocks ? parts.first_of(k + 1) : parts.end;
  T sums[kVector];
  sum_by_block<kVector>(
      a, end - begin, [begin](Index i) { return begin + i; }, has_column, column, sums);
  if (blocks > 1) {
    T* const own = a.slots + Offset{begin} * a.ld_slots + column;
    if (is_first_warp && has_column) store_vector<kVector>(own, sums);
    __threadfence();
    __syncthreads();
    const auto others = static_cast<unsigned>(blocks - 1);
    if (!__syncthreads_or(threadIdx.x == 0 && atomicInc(arrived, others) == others)) return;
    __threadfence();
    sum_by_block<kVector>(
        a, blocks, [&parts](Index i) { return parts.first_of(i); }, has_column, column, sums);
  }
  if (is_first_warp && has_column) add_to_row<kVector>(m.c.row(parts.row) + column, m.alpha, sums);
}

/// Adds the parts of cut rows to C, where their last parts are: a warp per row, but rows with many parts are
/// the block's, one after the other, and of rows with more than that the blocks from row_blocks on take a
/// chunk each. A lane takes kVector columns; with more than one, n_cols is a multiple of that and rows of C
/// are aligned. `arrived`: for each chunk of each strip, of its first row with so many parts; 0.
template <unsigned kVector, class T>
__global__ void __launch_bounds__(kFixUpBlock)
    add_parts(Matrix<T> a, Product<T> m, unsigned row_blocks, unsigned* arrived) {
  constexpr unsigned kStrip = kWarp * kVector;
  const unsigned lane = threadIdx.x % kWarp;
  const auto arrived_at = [&](const Parts& parts, Offset strip) {
    return arrived + strip / kStrip * a.partition.chunks + parts.begin / kChunk;
  };
  if (blockIdx.x >= row_blocks) {
    const auto chunk = static_cast<Index>(blockIdx.x - row_blocks + 1);
    const Parts parts = parts_of(a.partition, static_cast<unsigned>(a.partition.chunk[chunk]));
    if (parts.are_for_one_block() || parts.begin == chunk * kChunk) return;
    wait_for_earlier_kernel();
    for (Offset strip = Offset{blockIdx.y} * kStrip; strip < m.n_cols; strip += Offset{gridDim.y} * kStrip) {
      add_many_parts<kVector>(a, m, parts, chunk - parts.begin / kChunk, strip + lane * kVector,
                              arrived_at(parts, strip));
    }
    return;
  }
  const unsigned first = blockIdx.x * kFixUpWarps;
  const Parts mine = parts_of(a.partition, first + threadIdx.x / kWarp);
  wait_for_earlier_kernel();
  for (Offset strip = Offset{blockIdx.y} * kStrip; strip < m.n_cols; strip += Offset{gridDim.y} * kStrip) {
    const Offset column = strip + lane * kVector;
    if (mine.begin < mine.end && mine.are_few() && column < m.n_cols) {
      T sums[kVector];
      const auto same = [](Index slot) { return slot; };
      sum_slots<kVector>(a, mine.begin, mine.end, same, column, sums);
      add_to_row<kVector>(m.c.row(mine.row) + column, m.alpha, sums);
    }
    if (!__syncthreads_or(!mine.are_few())) continue;
    for (unsigned k = first; k < first + kFixUpWarps; ++k) {
      const Parts parts = parts_of(a.partition, k);
      if (!parts.are_few()) add_many_parts<kVector>(a, m, parts, 0, column, arrived_at(parts, strip));
    }
  }
}

/// Calls `go` with the Form of `g` where B has no vectors, or too few columns for them. A lane has one
/// column, two or three, which lie 32 apart.
template <class T, class Go>
auto with_single_columns(const Granularity& g, Go&& go) {
  if (g.strip == 8) return go(Form<T, 8, 1, 1, 8>{});
  if (g.strip == 16) return go(Form<T, 16, 1, 1, 8>{});
  if (g.strip == 32 && g.lanes == 32) return go(Form<T, 32, 1, 1, 8>{});
  if (g.strip == 64 && g.lanes == 32) return go(Form<T, 32, 1, 2, 8>{});
  if (g.strip == 96 && g.lanes == 32) return go(Form<T, 32, 1, 3, 4>{});
#ifdef STAGES_SPMM_ALL_FORMS
  if (g.strip == 32 && g.lanes == 8) return go(Form<T, 8, 1, 4, 4>{});
  if (g.strip == 64 && g.lanes == 16) return go(Form<T, 16, 1, 4, 4>{});
#endif
  fail(
      "balanced: strips of {} columns on {} lanes were asked for, where rows of B are not aligned; "
      "give strips of 8 or 16, or of 32, 64 or 96 on 32 lanes",
      g.strip, g.lanes);
}

#ifdef STAGES_SPMM_ALL_FORMS
/// The forms that no rule chooses, which a study has compiled for itself. False if `g` is none of them.
template <class T, class Go>
bool with_study_form(const Granularity& g, Go&& go) {
  constexpr Index kVector = 16 / sizeof(T);
  constexpr unsigned kLanes = 32 / kVector;  ///< of a strip of 32
  const auto is = [&](Index strip, Index lanes, Index loads, unsigned block = kSmallBlock) {
    return g.strip == strip && g.lanes == lanes && g.loads == loads && g.block == static_cast<Index>(block);
  };
  bool found = true;
  if (is(32, kLanes, 2)) {
    go(Form<T, kLanes, kVector, 1, 2>{});
  } else if (is(32, kLanes, 4, 1024)) {
    go(Form<T, kLanes, kVector, 1, 4, 1024>{});
  } else if (is(64, 2 * kLanes, 4, 1024)) {
    go(Form<T, 2 * kLanes, kVector, 1, 4, 1024>{});
  } else if (is(64, kLanes, 4)) {
    go(Form<T, kLanes, kVector, 2, 2>{});
  } else if (is(64, kLanes, 8)) {
    go(Form<T, kLanes, kVector, 2, 4>{});
  } else if (is(128, 2 * kLanes, 4)) {
    go(Form<T, 2 * kLanes, kVector, 2, 2>{});
  } else {
    found = false;
  }
  return found;
}
#endif

/// Calls `go` with the Form of `g`, with vectors where rows of B are `aligned`.
template <class T, class Go>
void with_form(const Granularity& g, bool aligned, Go&& go) {
  constexpr unsigned kVector = 16 / sizeof(T);
  if (!aligned || g.strip < kVectorStrip) return with_single_columns<T>(g, go);
#ifdef STAGES_SPMM_ALL_FORMS
  if constexpr (sizeof(T) == 4) {
    if (with_study_form<T>(g, go)) return;
  }
#endif
  const bool one_vector = g.strip == g.lanes * Index{kVector} && g.block == Index{kSmallBlock};
  if constexpr (kVector == 4) {
    if (one_vector && g.lanes == 8 && g.loads == 4) return go(Form<T, 8, kVector, 1, 4>{});
    if (one_vector && g.lanes == 8 && g.loads == 8) return go(Form<T, 8, kVector, 1, 8>{});
  }
  if constexpr (kVector == 4) {
    if (g.strip == kWideStrip && g.lanes == 16 && g.loads == 8) return go(Form<T, 16, kVector, 2, 4>{});
  }
  if (one_vector && g.lanes == 16 && g.loads == 4) return go(Form<T, 16, kVector, 1, 4>{});
  if (one_vector && g.lanes == 16 && g.loads == 8) return go(Form<T, 16, kVector, 1, 8>{});
  fail(
      "balanced: strips of {} columns on {} lanes, {} loads and blocks of {} threads were asked for; "
      "give 8 or 16 lanes with a vector of {} columns each, 4 or 8 loads, and 128 threads",
      g.strip, g.lanes, g.loads, g.block, kVector);
}

template <class T>
bool rows_are_aligned(Offset ld) {
  return ld % static_cast<Offset>(16 / sizeof(T)) == 0;
}

/// Whether one wide strip takes all columns, by the rule of balanced.hpp.
template <class T>
bool is_one_wide_strip(const Shape& shape) {
  return sizeof(T) == 4 && rows_are_aligned<T>(shape.ld_of_b) && shape.n_cols > kWideStrip * 3 / 4 &&
         shape.n_cols < kWideStrip;
}

/// Whether the near-dense form is taken, by the rule of balanced.hpp.
template <class T>
bool is_near_dense(const Shape& shape) {
  const double strip_bytes = 32.0 * sizeof(T) * shape.rows_of_b;
  const double l1_bytes = 0.75 * static_cast<double>(device_facts().shared_per_sm);
  const double density = static_cast<double>(shape.nnz) / (static_cast<double>(shape.rows) * shape.rows_of_b);
  return shape.n_cols >= 32 && strip_bytes > l1_bytes && kNearDenseRun / density * 32 * sizeof(T) <= l1_bytes;
}

/// The columns of a strip, by the rule of balanced.hpp.
template <class T>
Index strip_for(Index n_cols) {
  constexpr Index kWidest = 256 / sizeof(T);
  return n_cols <= 8 ? 8 : n_cols <= 16 ? 16 : n_cols <= 32 ? 32 : kWidest;
}

/// So many bands that one of them takes half of L1.
template <class T>
Granularity near_dense(Granularity g, const Shape& shape) {
  const double half_of_l1 = static_cast<double>(device_facts().shared_per_sm) / 2;
  const double strip_bytes = static_cast<double>(g.strip) * sizeof(T) * shape.rows_of_b;
  if (g.share == 0) g.share = 128;
  if (g.loads == 0) g.loads = 4;
  if (g.bands == 0) g.bands = static_cast<Index>(std::ceil(strip_bytes / half_of_l1));
  return g;
}

/// Whether rows are so long that shares in bands pay, by the rule of balanced.hpp.
bool are_very_long(const Shape& shape) {
  return shape.n_cols >= 32 && shape.nnz >= Offset{kVeryLongRows} * shape.rows;
}

/// The granularity for very long rows.
Granularity in_bands(Granularity g) {
  g.strip = 32;
  if (g.share == 0) g.share = kVeryLongRows / 2;
  if (g.bands == 0) g.bands = 10;
  return g;
}

/// The non-zeros of a share, by the rule of balanced.hpp; `groups`: how many a block has, `blocks`: how many
/// of those an SM.
Index share_for(const Shape& shape, unsigned groups, unsigned blocks) {
  const double resident = static_cast<double>(device_facts().sms) * groups * blocks;
  const double even = static_cast<double>(shape.nnz) / (2 * resident);
  return (static_cast<Index>(std::clamp(even, 32.0, 256.0)) + 7) / 8 * 8;
}

/// How the last `columns` are done, which are no whole strip.
template <class T>
Granularity for_rest(Index columns, bool aligned) {
  const Index strip = columns <= 8 ? 8 : columns <= 16 ? 16 : columns <= 32 ? 32 : columns <= 64 ? 64 : 96;
  const Index lanes = aligned ? Index{32 * sizeof(T) / 16} : Index{kWarp};
  return {.strip = strip, .lanes = lanes, .loads = 4, .block = Index{kSmallBlock}};
}

/// Whether so many columns of a row of B are few enough for a lane a non-zero.
template <class T>
bool are_few_columns(Index n_cols) {
  return n_cols * Offset{sizeof(T)} <= 16;
}

/// The granularity for a few columns.
template <class T>
Granularity a_lane_a_nonzero(Granularity g, const Shape& shape) {
  g.strip = 16 / sizeof(T);
  g.lanes = 1;
  g.loads = kThinAhead;
  g.block = kSmallBlock;
  if (g.bands == 0) g.bands = 1;
  if (g.share == 0) g.share = share_for(shape, kSmallBlock / kWarp, kThinBlocks);
  return g;
}

/// Of so many columns of a B that is not aligned, those beyond the last that a warp takes a column a lane, if
/// they are few enough for a lane a non-zero.
template <class T>
Index thin_rest(Index n_cols) {
  const Index over = n_cols % Index{kWarp};
  return n_cols > Index{kWarp} && are_few_columns<T>(over) ? over : 0;
}

/// Whether a lane takes vectors of B.
template <class T>
bool takes_vectors(const Granularity& g, const Shape& shape) {
  return g.packing == Packing::always || rows_are_aligned<T>(shape.ld_of_b);
}

/// Whether a copy of B pays, by the rule of balanced.hpp.
template <class T>
bool packing_pays(const Shape& shape, Index strip) {
  if (!can_pack<T>(strip)) return false;
  constexpr Index kLine = kLineBytes / sizeof(T);
  const Index at_once = rows_are_aligned<T>(shape.ld_of_b) ? strip : Index{kWarp};
  const double saved = lines_as_it_lies(shape.n_cols, shape.ld_of_b, at_once, kLine) -
                       lines_packed(pieces_of<T>(shape.n_cols, strip), kLine);
  const double lines_of_b = static_cast<double>(shape.rows_of_b) * shape.n_cols / kLine;
  return static_cast<double>(shape.nnz) * saved >= kLinesOfCopy * lines_of_b;
}

/// Blocks of a grid in y, which may have no more than some; the rest is for another launch, or another turn.
unsigned strips_of(Index n_cols, unsigned columns) {
  return std::min(kMostBlocks, blocks_for(n_cols, columns));
}

}  // namespace

template <class T>
Shape shape_of(const SpmmProblem<T>& problem) {
  return {problem.a->nnz(), problem.a->rows, problem.a->cols, problem.n_cols, ld_of_b(problem)};
}

template <class T>
Granularity resolve(Granularity g, const Shape& shape) {
  const bool by_rule = g.strip == 0;
  if (g.lanes == 1 && !are_few_columns<T>(shape.n_cols)) {
    fail("balanced: a lane a non-zero was asked for, but a lane has no more than {} columns, not {}",
         16 / sizeof(T), shape.n_cols);
  }
  if (by_rule) g.strip = strip_for<T>(shape.n_cols);
  if (g.packing == Packing::by_rule) {
    g.packing = by_rule && packing_pays<T>(shape, g.strip) ? Packing::always : Packing::never;
  }
  if (by_rule && g.packing == Packing::always && can_pack<T>(g.strip)) {
    g.strip = pieces_of<T>(shape.n_cols, g.strip).front().strip;  // 33 columns: 32 and 1
  }
  if (g.lanes == 1 || (by_rule && g.packing == Packing::never && are_few_columns<T>(shape.n_cols))) {
    return a_lane_a_nonzero<T>(g, shape);
  }
  const bool vectors = takes_vectors<T>(g, shape);
  if (by_rule && vectors && is_near_dense<T>(shape)) {
    g = near_dense<T>(g, shape);
  } else if (by_rule && vectors && are_very_long(shape)) {
    g = in_bands(g);
  } else if (by_rule && g.packing == Packing::never && is_one_wide_strip<T>(shape)) {
    g.strip = kWideStrip;
    g.lanes = 16;
    g.loads = 8;
  }
  if (g.block == 0) g.block = kSmallBlock;
  constexpr Index kVector = 16 / sizeof(T);
  if (g.lanes == 0) g.lanes = vectors ? std::min(g.strip / kVector, Index{kWarp}) : Index{kWarp};
  if (g.packing == Packing::always && (!can_pack<T>(g.strip) || g.lanes * kVector != g.strip)) {
    fail(
        "balanced: B was to be packed for strips of {} columns on {} lanes; give strips of {} or {} with a "
        "vector of {} a lane",
        g.strip, g.lanes, kLineBytes / sizeof(T), 2 * kLineBytes / sizeof(T), kVector);
  }
  if (g.loads == 0) g.loads = shape.nnz >= Offset{kLongRows} * shape.rows ? 8 : 4;
  if (g.bands == 0) g.bands = 1;
  with_form<T>(g, vectors, [&](auto form) {
    using F = decltype(form);
    if (g.share == 0) g.share = share_for(shape, F::kGroups, F::kBlocks);
  });
  return g;
}

template <class T>
double balanced_bytes(const SpmmProblem<T>& problem) {
  const Granularity g = resolve<T>(Granularity{}, shape_of(problem));
  const double shares = static_cast<double>(problem.a->nnz()) / g.share;
  const double packed = g.packing == Packing::always
                            ? PackedB<T>::bytes(problem.a->cols, pieces_of<T>(problem.n_cols, g.strip))
                            : 0;
  return shares * (24 + 32 + sizeof(T) * (problem.n_cols + 3.0)) + 16.0 * problem.a->rows + packed;
}

template <class T>
template <class Ptr>
BalancedMatrix<T>::BalancedMatrix(DeviceCsr<T, Ptr>& a, const Shape& shape, const Granularity& granularity,
                                  cudaStream_t stream)
    : aligned_(takes_vectors<T>(granularity, shape)),
      granularity_(granularity),
      columns_(a.col_idx.data()),
      values_(a.values.data()) {
  const Index share = granularity.share, slack = std::min(std::max(share / 8, Index{16}), share - 1);
  partition_ = Partition(a, {.share_size = share, .slack = slack, .bands = granularity.bands}, stream);
  constexpr Offset kVector = 16 / sizeof(T);
  ld_slots_ = narrow<Index>((Offset{shape.n_cols} + kVector - 1) / kVector * kVector, "a row of slots");
  slots_ = DeviceArray<T>(static_cast<std::size_t>(partition_.slots()) * static_cast<std::size_t>(ld_slots_));
  arrived_ = DeviceArray<unsigned>(std::size_t{partition_.view().chunks} * blocks_for(shape.n_cols, kWarp));
  arrived_.fill_bytes(0, stream);
  if (granularity.packing == Packing::always) {
    packed_ = PackedB<T>(shape.rows_of_b, pieces_of<T>(shape.n_cols, granularity.strip));
  }
}

template <class T>
void BalancedMatrix<T>::multiply(const Product<T>& product, cudaStream_t stream) {
  granularity_.packing == Packing::always ? multiply_packed(product, stream)
                                          : multiply_as_it_lies(product, stream);
  add_slots(product, stream);
}

template <class T>
void BalancedMatrix<T>::multiply_packed(const Product<T>& product, cudaStream_t stream) {
  const bool dealt = !rows_are_aligned<T>(product.c.ld);
  packed_.copy(product.b, dealt, stream);
  for (const Piece& piece : packed_.pieces()) {
    if (piece.strip * Index{sizeof(T)} <= 16) {
      const Rows<const T> b{packed_.data(piece), piece.strip};
      multiply_thin_columns(product, b, piece.first, piece.columns, true, stream);
      continue;
    }
    Granularity g = granularity_;
    if (piece.strip != g.strip) g = for_rest<T>(std::min(piece.columns, piece.strip), true);
    multiply_columns(product,
                     {.first = piece.first,
                      .count = piece.columns,
                      .b = packed_.data(piece),
                      .ld = piece.strip,
                      .apart = packed_.apart(piece),
                      .dealt = dealt,
                      .early = piece.first > 0},
                     g, stream);
  }
}

template <class T>
void BalancedMatrix<T>::multiply_thin_columns(Product<T> product, const Rows<const T>& b, Index first,
                                              Index count, bool vectors, cudaStream_t stream) {
  product.b = b;
  product.c.data += first;
  product.n_cols = count;
  const PartitionView view = partition_.view();
  T* const slots = slots_.empty() ? nullptr : slots_.data() + first;
  const Matrix<T> matrix{view, columns_, values_, slots, ld_slots_};
  const unsigned share_blocks = blocks_for(view.shares, kSmallBlock / kWarp);
  const auto start = [&](auto kernel) {
    launch(kernel,
           {.grid = share_blocks + blocks_for(view.empty_rows, kSmallBlock),
            .block = kSmallBlock,
            .stream = stream,
            .early = first > 0 && can_launch_early()},
           matrix, product, share_blocks);
  };
  if (count == 1) return start(multiply_thin<1, 1, T>);
  if constexpr (sizeof(T) == 8) {
    vectors ? start(multiply_thin<2, 2, T>) : start(multiply_thin<2, 1, T>);
  } else if (count == 2) {
    start(multiply_thin<2, 1, T>);
  } else {
    vectors ? start(multiply_thin<4, 4, T>) : start(multiply_thin<4, 1, T>);
  }
}

template <class T>
void BalancedMatrix<T>::multiply_as_it_lies(const Product<T>& product, cudaStream_t stream) {
  if (granularity_.lanes == 1) {
    const bool vectors = aligned_ && product.n_cols == granularity_.strip;
    return multiply_thin_columns(product, product.b, 0, product.n_cols, vectors, stream);
  }
  const Index strip = granularity_.strip, thin = aligned_ ? 0 : thin_rest<T>(product.n_cols);
  const Index wide = product.n_cols - thin, over = wide % strip;
  Index rest = (wide > strip || thin > 0) && over <= strip / 2 ? over : 0;
  if (rest > 0 && wide > strip && !aligned_ && strip >= kVectorStrip) rest += strip;
  const Index whole = wide - rest;
  const auto columns = [&](Index first, Index count, Index apart) {
    return Columns{
        .first = first, .count = count, .b = product.b.data + first, .ld = product.b.ld, .apart = apart};
  };
  multiply_columns(product, columns(0, whole, strip), granularity_, stream);
  const Granularity g = for_rest<T>(rest, aligned_);
  multiply_columns(product, columns(whole, rest, g.strip), g, stream);
  if (thin > 0) {
    const Rows<const T> b{product.b.data + wide, product.b.ld};
    multiply_thin_columns(product, b, wide, thin, false, stream);
  }
}

template <class T>
void BalancedMatrix<T>::multiply_columns(const Product<T>& product, const Columns& columns,
                                         const Granularity& g, cudaStream_t stream) {
  with_form<T>(g, aligned_, [&](auto form) {
    using F = decltype(form);
    for (Offset first = 0; first < columns.count; first += Offset{kMostBlocks} * F::kStrip) {
      launch_form<F>(product, columns, first, stream);
    }
  });
}

template <class T>
template <class F>
void BalancedMatrix<T>::launch_form(Product<T> product, const Columns& columns, Offset first,
                                    cudaStream_t stream) {
  product.b = {columns.b + first / F::kStrip * columns.apart, columns.ld};
  product.c.data += columns.first + first;
  product.n_cols = static_cast<Index>(columns.count - first);
  const PartitionView view = partition_.view();
  T* const slots = slots_.empty() ? nullptr : slots_.data() + columns.first + first;
  const Matrix<T> matrix{view, columns_, values_, slots, ld_slots_};
  const unsigned share_blocks = blocks_for(view.shares, F::kGroups);
  const auto start = [&](auto kernel) {
    launch(kernel,
           {.grid = {share_blocks + blocks_for(view.empty_rows, F::kGroups),
                     strips_of(product.n_cols, F::kStrip)},
            .block = F::kBlock,
            .stream = stream,
            .early = columns.early && can_launch_early()},
           matrix, product, columns.apart - Offset{F::kStrip}, share_blocks);
  };
  if constexpr (F::kVector > 1) {
    if (columns.dealt) return start(spmm::multiply<F, true>);
  }
  start(spmm::multiply<F, false>);
}

template <class T>
void BalancedMatrix<T>::add_slots(const Product<T>& product, cudaStream_t stream) {
  const PartitionView view = partition_.view();
  const Matrix<T> matrix{view, columns_, values_, slots_.data(), ld_slots_};
  const unsigned row_blocks = blocks_for(view.split_rows, kFixUpWarps);
  const auto add = [&](auto kernel, unsigned columns) {
    launch(
        kernel,
        {.grid = {row_blocks + (view.chunks > 0 ? view.chunks - 1 : 0), strips_of(product.n_cols, columns)},
         .block = kFixUpBlock,
         .stream = stream,
         .early = can_launch_early()},
        matrix, product, row_blocks, arrived_.data());
  };
  constexpr unsigned kVector = 16 / sizeof(T);
  const bool vectors = static_cast<unsigned>(product.n_cols) >= 2 * kWarp &&
                       product.n_cols % Index{kVector} == 0 && rows_are_aligned<T>(product.c.ld);
  vectors ? add(add_parts<kVector, T>, kVector * kWarp) : add(add_parts<1, T>, kWarp);
}

namespace {

template <class T>
class Balanced final : public RowMajorPlan<T> {
 public:
  Balanced(const SpmmProblem<T>& problem, Exec& exec, Granularity granularity)
      : RowMajorPlan<T>(problem, exec), a_(to_device(*problem.a)) {
    const Shape shape = shape_of(problem);
    std::visit(
        [&](auto& a) {
          matrix_ = BalancedMatrix<T>(a, shape, resolve<T>(granularity, shape), this->stream());
          a.row_ptr = {};
        },
        a_);
  }

  static Cost cost(const SpmmProblem<T>& problem) {
    Cost cost = RowMajorPlan<T>::cost(problem);
    cost.memory += balanced_bytes(problem);
    return cost;
  }

  std::vector<Metric> metrics() const override {
    const PartitionView view = matrix_.partition().view();
    const Granularity& g = matrix_.granularity();
    return {
        {"shares", static_cast<double>(view.shares), ""},
        {"share_nonzeros", static_cast<double>(g.share), ""},
        {"strip_columns", static_cast<double>(g.strip), ""},
        {"bands", static_cast<double>(g.bands), ""},
        {"block_threads", static_cast<double>(g.block), ""},
        {"packed_bytes", matrix_.packed_bytes(), "B"},
        {"rows_cut", static_cast<double>(view.split_rows), ""},
        {"rows_empty", static_cast<double>(view.empty_rows), ""},
        {"partition_seconds",
         matrix_.partition().seconds().value_or(std::numeric_limits<double>::quiet_NaN()), "s"},
        {"strict_floor_bytes", strict_floor_bytes(), "B"},
        {"gathered_bytes", sizeof(T) * static_cast<double>(this->a().nnz()) * this->problem().n_cols, "B"}};
  }

 protected:
  void multiply(const Product<T>& product) override { matrix_.multiply(product, this->stream()); }

 private:
  /// A with 8 bytes a row pointer, the rows of B that are used, and C, once each (C twice where beta asks for
  /// the old one): no product of matrices in these formats moves less.
  double strict_floor_bytes() const {
    const Csr<T>& a = this->a();
    std::vector<bool> used(static_cast<std::size_t>(a.cols));
    for (const Index column : a.col_idx) used[static_cast<std::size_t>(column)] = true;
    const double rows_of_b = static_cast<double>(std::count(used.begin(), used.end(), true));
    const double n = this->problem().n_cols, c_passes = this->problem().beta == T{0} ? 1 : 2;
    return (4.0 + sizeof(T)) * static_cast<double>(a.nnz()) + 8 * (a.rows + 1.0) +
           sizeof(T) * n * (rows_of_b + c_passes * a.rows);
  }

  AnyDeviceCsr<T> a_;  ///< without its row pointers
  BalancedMatrix<T> matrix_;
};

}  // namespace

void add_balanced(Registry& registry, const std::string& name, Granularity granularity) {
  registry.add<Balanced>(
      {.name = name,
       .idea = "equal shares of non-zeros on groups of lanes, strips of B; cut rows in a fixed order",
       .needs = {.gpu = true}},
      granularity);
}

#define STAGES_INSTANTIATE(T)                                                                               \
  template Shape shape_of(const SpmmProblem<T>&);                                                           \
  template Granularity resolve<T>(Granularity, const Shape&);                                               \
  template double balanced_bytes(const SpmmProblem<T>&);                                                    \
  template class BalancedMatrix<T>;                                                                         \
  template BalancedMatrix<T>::BalancedMatrix(DeviceCsr<T, std::int32_t>&, const Shape&, const Granularity&, \
                                             cudaStream_t);                                                 \
  template BalancedMatrix<T>::BalancedMatrix(DeviceCsr<T, Offset>&, const Shape&, const Granularity&,       \
                                             cudaStream_t);
STAGES_INSTANTIATE(float)
STAGES_INSTANTIATE(double)
#undef STAGES_INSTANTIATE

}  // namespace stages::spmm
