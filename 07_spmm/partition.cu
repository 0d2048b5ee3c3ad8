// Cutting a matrix into equal shares of its non-zeros, on the device. What is cut is told in partition.hpp.

#include "07_spmm/partition.hpp"

#include "common/gpu/scan.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kBlock = 256;

/// Sizes that the host wants to know.
struct Totals {
  Index filled_rows = 0;
  Index slots = 0;
  Index split_rows = 0;
};

/// Marks the last non-zero of each row, and tells which rows have one.
template <class Ptr>
__global__ void mark_rows(const Ptr* row_ptr, Index rows, Index* col_idx, Index* filled) {
  const Offset thread = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (thread >= rows) return;
  const Ptr end = row_ptr[thread + 1];
  filled[thread] = end > row_ptr[thread];
  if (filled[thread]) col_idx[end - 1] |= ~kColumnBits;
}

/// `place[i]`: how many rows before row i are filled.
__global__ void list_rows(const Index* place, Index n_rows, Index* rows, Index* empty) {
  const Offset thread = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (thread >= n_rows) return;
  const auto row = static_cast<Index>(thread);
  const Index before = place[row];
  if (place[row + 1] > before) {
    rows[before] = row;
  } else {
    empty[row - before] = row;
  }
}

/// The row of non-zero p: the last one that begins at p or before.
template <class Ptr>
__device__ Index row_of(const Ptr* row_ptr, Index rows, Offset p) {
  Index low = 0, high = rows;
  while (high - low > 1) {
    const Index middle = low + (high - low) / 2;
    (static_cast<Offset>(row_ptr[middle]) <= p ? low : high) = middle;
  }
  return low;
}

/// Boundary j, for j = 0 .. shares; `cuts[j]`: whether it stands within a row.
template <class Ptr>
__global__ void cut(const Ptr* row_ptr, Index rows, const Index* place, Offset nnz, Index share_size,
                    Index shares, Share* share, Index* cuts) {
  const Offset j = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (j > shares) return;
  Share out{nnz, place[rows], -1};
  cuts[j] = 0;
  if (j < shares) {
    const Index row = row_of(row_ptr, rows, j * share_size);
    const auto begin = static_cast<Offset>(row_ptr[row]), end = static_cast<Offset>(row_ptr[row + 1]);
    out.begin = end - begin <= share_size ? begin : j * share_size;
    out.row = place[row];
    cuts[j] = out.begin > begin;
  }
  share[j] = out;
}

/// `starts[j]`: whether boundary j is the first that cuts its row.
__global__ void first_cuts(const Share* share, const Index* cuts, Index shares, Index* starts) {
  const Offset j = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (j > shares) return;
  starts[j] = cuts[j] && !(cuts[j - 1] && share[j - 1].row == share[j].row);
}

/// Slots of shares, and the list of split rows. `slot[j]` and `split_place[j]`: cuts and starts before
/// boundary j.
__global__ void number_cuts(Share* share, const Index* cuts, const Index* slot, const Index* starts,
                            const Index* split_place, const Index* rows, Index shares, SplitRow* split,
                            Totals* totals) {
  const Offset j = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (j > shares) return;
  if (cuts[j]) share[j - 1].slot = slot[j];
  if (starts[j]) split[split_place[j]] = {rows[share[j].row], slot[j]};
  if (j < shares) return;
  split[split_place[j]] = {0, slot[j]};
  *totals = {share[j].row, slot[j], split_place[j]};
}

/// Arrays that are needed only while the partition is made.
struct Scratch {
  DeviceArray<Index> filled, place, cuts, slot, starts, split_place;
  DeviceArray<Totals> totals{1};

  Scratch(std::size_t rows, std::size_t boundaries)
      : filled(rows),
        place(rows + 1),
        cuts(boundaries),
        slot(boundaries + 1),
        starts(boundaries),
        split_place(boundaries + 1) {}
};

}  // namespace

template <class Ptr>
Partition::Partition(const Ptr* row_ptr, Index rows, Index* col_idx, Offset nnz, Index share_size,
                     cudaStream_t stream) {
  if (rows == 0) return;
  const auto shares = narrow<Index>((nnz + share_size - 1) / share_size, "the number of shares");
  const auto n = static_cast<std::size_t>(rows), boundaries = static_cast<std::size_t>(shares) + 1;
  Scratch scratch(n, boundaries);
  share_ = DeviceArray<Share>(boundaries);
  rows_ = DeviceArray<Index>(n + 1);
  empty_ = DeviceArray<Index>(n);
  split_ = DeviceArray<SplitRow>(boundaries);
  PrefixSum<Index, Index> sum;
  sum.reserve(std::max<Offset>(rows, std::ssize(scratch.cuts)));
  const LaunchConfig per_row{.grid = blocks_for(rows, kBlock), .block = kBlock, .stream = stream};
  const LaunchConfig per_boundary{
      .grid = blocks_for(Offset{shares} + 1, kBlock), .block = kBlock, .stream = stream};

  const EventTimer timer;
  timer.start(stream);
  rows_.fill_bytes(0, stream);
  launch(mark_rows<Ptr>, per_row, row_ptr, rows, col_idx, scratch.filled.data());
  sum.run(scratch.filled.data(), scratch.place.data(), rows, stream);
  launch(list_rows, per_row, scratch.place.data(), rows, rows_.data(), empty_.data());
  launch(cut<Ptr>, per_boundary, row_ptr, rows, scratch.place.data(), nnz, share_size, shares, share_.data(),
         scratch.cuts.data());
  launch(first_cuts, per_boundary, share_.data(), scratch.cuts.data(), shares, scratch.starts.data());
  sum.run(scratch.cuts.data(), scratch.slot.data(), std::ssize(scratch.cuts), stream);
  sum.run(scratch.starts.data(), scratch.split_place.data(), std::ssize(scratch.starts), stream);
  launch(number_cuts, per_boundary, share_.data(), scratch.cuts.data(), scratch.slot.data(),
         scratch.starts.data(), scratch.split_place.data(), rows_.data(), shares, split_.data(),
         scratch.totals.data());
  timer.stop(stream);

  Totals totals;
  scratch.totals.download({&totals, 1}, stream);
  STAGES_CUDA(cudaStreamSynchronize(stream));
  seconds_ = timer.seconds();
  shares_ = static_cast<unsigned>(shares);
  empty_rows_ = static_cast<unsigned>(rows - totals.filled_rows);
  split_rows_ = static_cast<unsigned>(totals.split_rows);
  slots_ = totals.slots;
}

PartitionView Partition::view() const {
  return {shares_, empty_rows_, split_rows_, share_.data(), rows_.data(), empty_.data(), split_.data()};
}

template Partition::Partition(const std::int32_t*, Index, Index*, Offset, Index, cudaStream_t);
template Partition::Partition(const Offset*, Index, Index*, Offset, Index, cudaStream_t);

}  // namespace stages::spmm
