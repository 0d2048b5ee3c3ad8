// The rows that shares cut: their parts are added to C by a second kernel, always in the same order.
//
// The idea: a group that has summed up a part of a row that goes on in the next share leaves the sum in a slot
// of its own, and who has the row's end stores to C. So no sum is made by atomics, nothing is to be set to
// zero before, and the bits are the same in every run. Who adds the slots of a row to C depends on how many
// there are:
//
//   up to kFewParts    a warp, up to 16 rows a block
//   up to kManyParts   a block: each warp adds up a stretch of the slots, the first warp then these sums
//   more (hub rows)    several blocks, each the row's slots in one chunk of kChunk. A counter tells which
//                      block is done last; that one adds up the sums of all, in a fixed order. Without hub
//                      rows there are no such blocks and no counters
//
// The kernel's blocks are sent to the SMs while the last shares are still under way, and wait there: beside
// products of 30 us a launch's 2 us would show.
//
// Input: slots as the kernels for columns left them, and C, which has the last part of each cut row. Cost: a
// row of C read for each slot, and one read and written for each cut row.

#include "07_spmm/fast/kernels.hpp"
#include "07_spmm/fast/vectors.hpp"
#include "common/gpu/facts.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kFixUpBlock = 512;  ///< so that a block adds up a chunk in one trip to memory, or a few
constexpr unsigned kFixUpWarps = kFixUpBlock / kWarp;

/// Columns `column` .. column + kVector - 1 of slots slot_of(begin) .. slot_of(end - 1), added up in this
/// order. A lane asks for some of them before it adds the first.
template <unsigned kVector, class T, class SlotOf>
__device__ void sum_slots(const CutMatrix<T>& a, Index begin, Index end, SlotOf slot_of, Offset column,
                          T (&sums)[kVector]) {
  constexpr Index kAtOnce = kVector == 1 ? 8 : 4;
#pragma unroll
  for (unsigned v = 0; v < kVector; ++v) sums[v] = T{0};
  for (Index first = begin; first < end; first += kAtOnce) {
    T parts[kAtOnce][kVector] = {};
#pragma unroll
    for (Index u = 0; u < kAtOnce; ++u) {
      if (first + u >= end) continue;
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
/// then the first warp the sums of all, in the order of the warps; the others' `sums` become 0. A lane whose
/// column is beyond the last (not has_column) reads no slots, but all threads must come along.
template <unsigned kVector, class T, class SlotOf>
__device__ void sum_by_block(const CutMatrix<T>& a, Index count, SlotOf slot_of, bool has_column,
                             Offset column, T (&sums)[kVector]) {
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
  if (k >= partition.cut_rows) return {};
  const CutRow row = partition.cut_row[k];
  return {row.row, row.first_slot, partition.cut_row[k + 1].first_slot};
}

/// Block k's part in a row with many parts. In a hub row there are several blocks: each leaves its sum in its
/// first slot, and the one that comes last, which the row's counter in `arrived` says, adds up these, always
/// in the same order. Then the counter is 0 again. It is that of the chunk in which the row's slots begin,
/// where no other hub row's can, and of the strip.
template <unsigned kVector, class T>
__device__ void add_many_parts(const CutMatrix<T>& a, const SpmmArgs<T>& m, const Parts& parts, Index k,
                               Offset column, unsigned* arrived) {
  const bool has_column = column < m.n_cols, is_first_warp = threadIdx.x < kWarp;
  const Index blocks = parts.blocks(), begin = parts.first_of(k);
  const Index end = k + 1 < blocks ? parts.first_of(k + 1) : parts.end;
  T sums[kVector];
  sum_by_block<kVector>(
      a, end - begin, [begin](Index i) { return begin + i; }, has_column, column, sums);
  if (blocks > 1) {
    unsigned* const counter =
        arrived + column / (kWarp * kVector) * a.partition.chunks + parts.begin / kChunk;
    T* const own = a.slots + Offset{begin} * a.ld_slots + column;
    if (is_first_warp && has_column) store_vector<kVector>(own, sums);
    __threadfence();
    __syncthreads();
    const auto others = static_cast<unsigned>(blocks - 1);
    if (!__syncthreads_or(threadIdx.x == 0 && atomicInc(counter, others) == others)) return;
    __threadfence();
    sum_by_block<kVector>(
        a, blocks, [&parts](Index i) { return parts.first_of(i); }, has_column, column, sums);
  }
  if (is_first_warp && has_column) add_to_row<kVector>(m.c.row(parts.row) + column, m.alpha, sums);
}

/// Adds the parts of cut rows to C, where their last parts are. The first row_blocks blocks have
/// `rows_of_block` rows each, a warp per row, but rows with many parts are the block's, one after the other; of
/// hub rows the blocks after those take a chunk each. A lane takes kVector columns; with more
/// than one, n_cols is a multiple of that and rows of C are aligned. `arrived`: a counter for each chunk of
/// slots, strip by strip.
template <unsigned kVector, class T>
__global__ void __launch_bounds__(kFixUpBlock)
    add_parts(CutMatrix<T> a, SpmmArgs<T> m, unsigned row_blocks, unsigned rows_of_block, unsigned* arrived) {
  constexpr unsigned kStrip = kWarp * kVector;
  const unsigned lane = threadIdx.x % kWarp;
  if (blockIdx.x >= row_blocks) {
    const auto chunk = static_cast<Index>(blockIdx.x - row_blocks + 1);
    const Parts parts = parts_of(a.partition, static_cast<unsigned>(a.partition.chunk[chunk]));
    if (parts.are_for_one_block() || parts.begin == chunk * kChunk) return;
    wait_for_earlier_kernel();
    for (Offset strip = Offset{blockIdx.y} * kStrip; strip < m.n_cols; strip += Offset{gridDim.y} * kStrip) {
      add_many_parts<kVector>(a, m, parts, chunk - parts.begin / kChunk, strip + lane * kVector, arrived);
    }
    return;
  }
  const unsigned first = blockIdx.x * rows_of_block, warp = threadIdx.x / kWarp;
  const Parts mine = warp < rows_of_block ? parts_of(a.partition, first + warp) : Parts{};
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
    for (unsigned k = first; k < first + rows_of_block; ++k) {
      const Parts parts = parts_of(a.partition, k);
      if (!parts.are_few()) add_many_parts<kVector>(a, m, parts, 0, column, arrived);
    }
  }
}

/// A warp has a row, and a block as many rows as it has warps. But rows with many parts have to wait for each
/// other within a block: if there are such rows, a block has so few rows that there are blocks for all SMs.
unsigned rows_of_fix_up_block(const PartitionView& view) {
  if (view.long_rows == 0) return kFixUpWarps;
  const DeviceFacts& device = device_facts();
  const auto blocks = static_cast<unsigned>(device.sms * device.max_threads_per_sm) / kFixUpBlock;
  return std::clamp(view.cut_rows / blocks, 1u, kFixUpWarps);
}

}  // namespace

std::size_t counters_of_cut_rows(const PartitionView& partition, Index n_cols) {
  return std::size_t{partition.chunks} * blocks_for(n_cols, kWarp);
}

template <class T>
void add_cut_rows(const Work<T>& work, unsigned* arrived, cudaStream_t stream) {
  const PartitionView& view = work.a.partition;
  const SpmmArgs<T>& m = work.m;
  const unsigned rows_of_block = rows_of_fix_up_block(view);
  const unsigned row_blocks = blocks_for(view.cut_rows, rows_of_block);
  const auto add = [&](auto kernel, unsigned columns) {
    launch(kernel,
           {.grid = {row_blocks + (view.chunks > 0 ? view.chunks - 1 : 0), strips_of(m.n_cols, columns)},
            .block = kFixUpBlock,
            .stream = stream,
            .early = can_launch_early()},
           work.a, m, row_blocks, rows_of_block, arrived);
  };
  constexpr unsigned kVector = kVectorLength<T>;
  const bool vectors = static_cast<unsigned>(m.n_cols) >= 2 * kWarp && m.n_cols % Index{kVector} == 0 &&
                       rows_are_aligned<T>(m.c.ld);
  vectors ? add(add_parts<kVector, T>, kVector * kWarp) : add(add_parts<1, T>, kWarp);
}

STAGES_FOR_VALUES(add_cut_rows)

}  // namespace stages::spmm
