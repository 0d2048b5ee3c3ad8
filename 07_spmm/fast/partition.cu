// Cutting a matrix into equal shares of its non-zeros, on the device. What is cut is told in partition.hpp.

#include "07_spmm/fast/partition.hpp"

#include "common/gpu/scan.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kBlock = 256;

/// Sizes that the host wants to know.
struct Totals {
  Index filled_rows = 0;
  Index slots = 0;
  Index cut_rows = 0;
  Index long_rows = 0;
  Index hub_rows = 0;
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

/// `place[i]`: how many rows before row i are filled. One thread more than rows ends the list of these.
__global__ void list_rows(const Index* place, Index n_rows, Index* rows, Index* empty) {
  const Offset thread = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (thread > n_rows) return;
  const auto row = static_cast<Index>(thread);
  const Index before = place[row];
  if (row == n_rows) {
    rows[before] = 0;
  } else if (place[row + 1] > before) {
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

/// Two numbers in one, so that one prefix sum adds up both: boundaries that cut a row, and those among them
/// that are the first to cut theirs.
struct Cuts {
  Index cuts = 0;
  Index starts = 0;

  static __device__ Cuts of(Offset packed) {
    return {static_cast<Index>(packed & 0x7fffffff), static_cast<Index>(packed >> 32)};
  }
  __device__ Offset packed() const { return Offset{starts} << 32 | cuts; }
};

/// Where a share begins.
struct Boundary {
  Offset begin = 0;
  Index row = 0;
  bool cuts = false;  ///< the row, which begins before
};

/// Boundary j, for j = 0 .. `shares`.
template <class Ptr>
__device__ Boundary boundary(const Ptr* row_ptr, Index rows, Offset nnz, Cut cut, Offset j, Index shares) {
  if (j >= shares) return {nnz, rows, false};
  const Offset even = j * cut.share_size;
  const Index row = row_of(row_ptr, rows, even);
  const auto begin = static_cast<Offset>(row_ptr[row]);
  if (even - begin <= cut.slack) return {begin, row, false};
  return {even, row, true};
}

/// The shares but for their slots. `counts[j]`: whether boundary j cuts its row, and is the first that does.
template <class Ptr>
__global__ void place_shares(const Ptr* row_ptr, Index rows, const Index* place, Offset nnz, Cut cut,
                             Index shares, Share* share, Offset* counts) {
  const Offset j = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (j > shares) return;
  const Boundary here = boundary(row_ptr, rows, nnz, cut, j, shares);
  const Boundary next = boundary(row_ptr, rows, nnz, cut, j + 1, shares);
  const Boundary before = j > 0 ? boundary(row_ptr, rows, nnz, cut, j - 1, shares) : Boundary{};
  const bool starts = here.cuts && !(before.cuts && before.row == here.row);
  share[j] = {
      .begin = here.begin, .length = static_cast<Index>(next.begin - here.begin), .row = place[here.row]};
  counts[j] = Cuts{here.cuts, starts}.packed();
}

/// Slots of shares, the list of cut rows, and for each chunk the row of its first slot. `before[j]`: the
/// sum of the counts before boundary j. Boundaries that cut one row follow each other, so a row with more than
/// so many slots is known by the one that comes so many after its first. `totals` are 0 before.
__global__ void number_cuts(Share* share, const Offset* counts, const Offset* before, const Index* rows,
                            Index shares, CutRow* cut_row, Index* chunk, Totals* totals) {
  const Offset j = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (j > shares) return;
  const Cuts here = Cuts::of(counts[j]), place = Cuts::of(before[j]);
  if (here.starts) cut_row[place.starts] = {rows[share[j].row], place.cuts};
  const auto has_started_before = [&](Index parts) {
    const Offset first = j - parts;
    return first >= 0 && Cuts::of(counts[first]).starts && share[first].row == share[j].row;
  };
  if (here.cuts) {
    const Index row = place.starts - (here.starts ? 0 : 1);
    share[j - 1].slot = place.cuts;
    if (place.cuts % kChunk == 0) chunk[place.cuts / kChunk] = row;
    if (has_started_before(kFewParts)) atomicAdd(&totals->long_rows, 1);
    if (has_started_before(kManyParts)) atomicAdd(&totals->hub_rows, 1);
  }
  if (j < shares) return;
  cut_row[place.starts] = {0, place.cuts};
  totals->filled_rows = share[j].row;
  totals->slots = place.cuts;
  totals->cut_rows = place.starts;
}

/// Arrays that are needed only while the partition is made. Partition::bytes() counts them.
struct Scratch {
  DeviceArray<Index> filled, place;
  DeviceArray<Offset> counts, counts_before;
  DeviceArray<Totals> totals{1};

  Scratch(std::size_t rows, std::size_t boundaries)
      : filled(rows), place(rows + 1), counts(boundaries), counts_before(boundaries + 1) {}
};

}  // namespace

template <class T, class Ptr>
Partition::Partition(DeviceCsr<T, Ptr>& a, const Cut& cut, cudaStream_t stream) {
  if (a.rows == 0) return;
  const Index rows = a.rows;
  const Ptr* const row_ptr = a.row_ptr.data();
  const auto nnz = static_cast<Offset>(a.col_idx.size());
  const auto shares = narrow<Index>((nnz + cut.share_size - 1) / cut.share_size, "the number of shares");
  const auto n = static_cast<std::size_t>(rows), boundaries = static_cast<std::size_t>(shares) + 1;
  Scratch scratch(n, boundaries);
  share_ = DeviceArray<Share>(boundaries);
  rows_ = DeviceArray<Index>(n + 1);
  empty_ = DeviceArray<Index>(n);
  cut_row_ = DeviceArray<CutRow>(boundaries);
  chunk_ = DeviceArray<Index>(boundaries / kChunk + 1);
  PrefixSum<Index, Index> sum;
  PrefixSum<Offset, Offset> sum_of_cuts;
  sum.reserve(rows);
  sum_of_cuts.reserve(std::ssize(scratch.counts));
  const auto over = [&](Offset threads) {
    return LaunchConfig{.grid = blocks_for(threads, kBlock), .block = kBlock, .stream = stream};
  };
  const LaunchConfig per_boundary = over(Offset{shares} + 1);

  scratch.totals.zero(stream);
  launch(mark_rows<Ptr>, over(rows), row_ptr, rows, a.col_idx.data(), scratch.filled.data());
  sum.run(scratch.filled.data(), scratch.place.data(), rows, stream);
  launch(list_rows, over(Offset{rows} + 1), scratch.place.data(), rows, rows_.data(), empty_.data());
  launch(place_shares<Ptr>, per_boundary, row_ptr, rows, scratch.place.data(), nnz, cut, shares,
         share_.data(), scratch.counts.data());
  sum_of_cuts.run(scratch.counts.data(), scratch.counts_before.data(), std::ssize(scratch.counts), stream);
  launch(number_cuts, per_boundary, share_.data(), scratch.counts.data(), scratch.counts_before.data(),
         rows_.data(), shares, cut_row_.data(), chunk_.data(), scratch.totals.data());

  Totals totals;
  scratch.totals.download({&totals, 1}, stream);
  STAGES_CUDA(cudaStreamSynchronize(stream));
  shares_ = static_cast<unsigned>(shares);
  empty_rows_ = static_cast<unsigned>(rows - totals.filled_rows);
  cut_rows_ = static_cast<unsigned>(totals.cut_rows);
  long_rows_ = static_cast<unsigned>(totals.long_rows);
  hub_rows_ = static_cast<unsigned>(totals.hub_rows);
  slots_ = totals.slots;
}

double Partition::bytes(Index rows, Offset shares) {
  const double boundaries = static_cast<double>(shares) + 1, n = rows + 1.0;
  const double kept =
      boundaries * (sizeof(Share) + sizeof(CutRow) + 1.0 / kChunk * sizeof(Index)) + n * 2 * sizeof(Index);
  const double scratch = boundaries * 2 * sizeof(Offset) + n * 2 * sizeof(Index);
  return kept + scratch;
}

PartitionView Partition::view() const {
  return {.shares = shares_,
          .empty_rows = empty_rows_,
          .cut_rows = cut_rows_,
          .long_rows = long_rows_,
          .chunks = hub_rows_ > 0 ? static_cast<unsigned>((slots_ + kChunk - 1) / kChunk) : 0,
          .share = share_.data(),
          .rows = rows_.data(),
          .empty = empty_.data(),
          .cut_row = cut_row_.data(),
          .chunk = chunk_.data()};
}

template Partition::Partition(DeviceCsr<float, std::int32_t>&, const Cut&, cudaStream_t);
template Partition::Partition(DeviceCsr<float, Offset>&, const Cut&, cudaStream_t);
template Partition::Partition(DeviceCsr<double, std::int32_t>&, const Cut&, cudaStream_t);
template Partition::Partition(DeviceCsr<double, Offset>&, const Cut&, cudaStream_t);

}  // namespace stages::spmm
