// Up to 16 bytes of a row of B (4 floats, 2 doubles): a lane has a non-zero of its own.
//
// The idea: a group of lanes with a column each would be mostly idle with four columns. Here a warp takes 32
// non-zeros at a time, and each lane multiplies one by its few numbers of B. A segmented scan over the lanes
// makes sums of rows of the products, whose ends the sign bits of columns tell; the lane with the end of a row
// stores its sum, and what goes on is carried to the next 32. As in strips.cu, several batches are asked for
// before the first is added.
//
// Input: a cut matrix; any B, as long as no row of it is longer; loaded by vectors where it is aligned. Cost:
// a sector of B for each non-zero, six shuffles a column for 32 of them, and A once.

#include "07_spmm/fast/kernels.hpp"
#include "07_spmm/fast/vectors.hpp"
#include "common/gpu/facts.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages::spmm {
namespace {

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
__device__ void finish_thin_row(const SpmmArgs<T>& m, Index row, const T (&sums)[kColumns]) {
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
__device__ void finish_thin_batch(const SpmmArgs<T>& m, ThinBatch<kColumns, T>& batch, T (&carry)[kColumns],
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
__device__ void multiply_thin_share(const CutMatrix<T>& a, const SpmmArgs<T>& m, unsigned number) {
  const unsigned lane = threadIdx.x % kWarp;
  const Share share = load_share(a.partition, number);
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

/// A warp for each share; behind them blocks that set empty rows.
template <unsigned kColumns, unsigned kVector, class T>
__global__ void __launch_bounds__(kSmallBlock)
    multiply_thin(CutMatrix<T> a, SpmmArgs<T> m, unsigned share_blocks) {
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

}  // namespace

template <class T>
void multiply_few_columns(const Work<T>& work, bool vectors, bool early, cudaStream_t stream) {
  const PartitionView& view = work.a.partition;
  const unsigned share_blocks = blocks_for(view.shares, kSmallBlock / kWarp);
  const auto start = [&](auto kernel) {
    launch(kernel,
           {.grid = share_blocks + blocks_for(view.empty_rows, kSmallBlock),
            .block = kSmallBlock,
            .stream = stream,
            .early = early && can_launch_early()},
           work.a, work.m, share_blocks);
  };
  const Index count = work.m.n_cols;
  if (count == 1) return start(multiply_thin<1, 1, T>);
  if constexpr (sizeof(T) == 8) {
    vectors ? start(multiply_thin<2, 2, T>) : start(multiply_thin<2, 1, T>);
  } else if (count == 2) {
    start(multiply_thin<2, 1, T>);
  } else {
    vectors ? start(multiply_thin<4, 4, T>) : start(multiply_thin<4, 1, T>);
  }
}

STAGES_FOR_VALUES(multiply_few_columns)

}  // namespace stages::spmm
