// SpMV from CSR in chunks of equal size, which no long row can stall.
//
// The idea: the unit is a chunk of at most 256 non-zeros, one for each warp, as in 6_balanced_shares.cu. But
// prepare cuts the matrix at the ends of rows, so that no sum is added by atomics:
//
//   rows of up to 256           as many whole rows as fit. The warp loads all non-zeros of the chunk before it
//                               uses the first, and leaves the products in shared memory. Each lane takes
//                               eight neighbours from there and adds up runs of the same row; a scan joins
//                               runs that go on from lane to lane. So it does not matter where rows begin and
//                               end. (With a lane per row a warp waits for its longest row.)
//   longer rows (hubs)          in chunks of their own, of 256 to 2,048: as large as leave every SM work. Where
//                               a row has several, each leaves a partial sum; the warp that is the last to
//                               arrive, by an integer counter, adds them in the order of the chunks: the same
//                               bits in every run, without a second kernel and without atomics on numbers.
//                               These chunks come first, because what takes longest should start first
//
// For the eight non-zeros of a lane a byte tells with which of them rows end, and beside it stands the number
// of the first one's row within the chunk. That is there as soon as the non-zeros are; a row pointer would have
// to be looked up and then searched. A row without non-zeros gets a non-zero without a column.
//
// Tried, and slower (notes.md): loads by __ldcs, which took up to 1.4 times as long on some matrices that fit
// into L2; and four non-zeros a lane (16 bytes a load), as the lanes of one gather then touch up to four times
// as many lines of x. Where all rows are longer than a chunk, all are hubs: 5_warp_per_row.cu has less to do.
//
// Input: any CSR matrix. Cost: (4 + sizeof(T)) bytes a non-zero, those of empty rows included, and 80 or 96
// bytes a chunk; one kernel. Memory: the same again.
//
// One file, though long: what prepare writes and what the kernel reads are one format.
//
// Sources: chunks of whole rows summed in shared memory are J. L. Greathouse and M. Daga's CSR-Stream
// ("Efficient sparse matrix-vector multiplication on GPUs using the CSR storage format", SC 2014), with warps
// in place of blocks; segmented sums are G. E. Blelloch, M. A. Heroux and M. Zagha's (CMU-CS-93-173); "the
// last to arrive adds up" is the threadFenceReduction sample of CUDA.

#include <algorithm>
#include <bit>

#include "05_cuda_csr/stage.hpp"
#include "common/gpu/cuda.hpp"
#include "common/gpu/facts.hpp"
#include "common/gpu/plans.hpp"
#include "common/matrix/parallel.hpp"

namespace stages {
namespace {

constexpr unsigned kWarps = 8;  ///< of a block; 4 and 16 were up to a tenth slower
/// Of an SM, at least, which leaves 64 registers: all loads in flight at once.
constexpr unsigned kBlocks = 4;
constexpr unsigned kPerLane = 8;               ///< non-zeros of a chunk for each lane
constexpr unsigned kChunk = kWarp * kPerLane;  ///< non-zeros
constexpr Offset kLargestChunk = 2048;         ///< of a hub
constexpr Offset kChunksOfSm = 32;             ///< of hubs, that are enough for an SM
constexpr unsigned kStaged = kChunk + kChunk / 32;
constexpr Index kNoColumn = -1;  ///< of the non-zero of an empty row

/// Non-zeros [begin, end): rows row .. row + rows - 1, whole; or, rows = 0, a part of hub number `row`.
template <class Ptr>
struct alignas(16) Chunk {
  Ptr begin = 0;
  Ptr end = 0;
  Index row = 0;
  Index rows = 0;
};

/// A row in chunks of its own.
struct Hub {
  Index row = 0;
  Index first_chunk = 0;
  Index chunks = 0;
};

/// Of eight neighbouring non-zeros: the first one's row within the chunk, and a bit for each with which a row
/// ends. What is beyond the end of a chunk belongs to its last row.
struct alignas(2) RowEnds {
  std::uint8_t first = 0;
  std::uint8_t ends = 0;
};

template <class T, class Ptr>
struct Chunks {
  unsigned count = 0;
  unsigned of_hubs = 0;  ///< the first so many are parts of hubs
  const Chunk<Ptr>* chunk = nullptr;
  const RowEnds* row_ends = nullptr;  ///< 32 for each chunk after those: of eight non-zeros, for each lane
  const Index* col_idx = nullptr;
  const T* values = nullptr;
  const Hub* hubs = nullptr;
  int* arrived = nullptr;  ///< for each hub; all 0 between products
  T* partial = nullptr;    ///< for each chunk of a hub
};

template <class T>
__device__ T sum_of_warp(T sum) {
  for (unsigned d = kWarp / 2; d > 0; d /= 2) sum += __shfl_down_sync(kAllLanes, sum, d);
  return sum;
}

/// Where product k of a chunk lies in shared memory. The gap after each 32 lets the lanes read at a distance
/// of eight without meeting in a bank.
__device__ inline unsigned place(unsigned k) { return k + k / 32; }

/// A chunk's sum is `sum` (in lane 0). The last warp to arrive adds up all of the hub's.
template <class T, class Ptr>
__device__ void add_to_hub(const Chunks<T, Ptr>& a, unsigned chunk, Index number, T sum, unsigned lane,
                           T* y) {
  const Hub hub = a.hubs[number];
  if (hub.chunks == 1) {
    if (lane == 0) y[hub.row] = sum;
    return;
  }
  int last = 0;
  if (lane == 0) {
    a.partial[chunk] = sum;
    __threadfence();  // the partial sum is seen by whoever sees the counter
    last = atomicAdd(&a.arrived[number], 1) == hub.chunks - 1;
  }
  if (!__shfl_sync(kAllLanes, last, 0)) return;
  __threadfence();
  T total = 0;
  for (Index k = static_cast<Index>(lane); k < hub.chunks; k += Index{kWarp}) {
    total += __ldcg(&a.partial[hub.first_chunk + k]);  // past the L1, which may hold an old one
  }
  total = sum_of_warp(total);
  if (lane == 0) {
    y[hub.row] = total;
    a.arrived[number] = 0;
  }
}

/// Eight neighbouring products of a lane and where rows end among them.
template <class T>
struct Run {
  T products[kPerLane];
  unsigned ends;

  __device__ bool ends_with(unsigned i) const { return (ends >> i & 1u) != 0; }
};

/// What lanes before this one bring to the row that this one begins with.
template <class T>
__device__ T carry_into(const Run<T>& run, unsigned lane) {
  T tail = run.products[0];  // of the row that goes on after the lane
#pragma unroll
  for (unsigned i = 1; i < kPerLane; ++i) {
    tail = run.ends_with(i - 1) ? run.products[i] : tail + run.products[i];
  }
  // A lane in which no row ends passes on what it gets: sums over such lanes. The row that goes on after one in
  // which a row ends has begun there.
  const unsigned starts = __ballot_sync(kAllLanes, run.ends != 0) | 1u;
  const unsigned up_to_here = kAllLanes >> (kWarp - 1 - lane);
  const unsigned behind_start =
      lane - (31u - static_cast<unsigned>(__clz(static_cast<int>(starts & up_to_here))));
  if (run.ends_with(kPerLane - 1)) tail = T{0};
  for (unsigned d = 1; d < kWarp; d *= 2) {
    const T from = __shfl_up_sync(kAllLanes, tail, d);
    if (d <= behind_start) tail += from;
  }
  const T carry = __shfl_up_sync(kAllLanes, tail, 1);
  return lane > 0 ? carry : T{0};
}

/// Adds up the rows of a chunk, whose products lie in `staged`, and writes them.
template <class T, class Ptr>
__device__ void sum_rows(const Chunk<Ptr>& chunk, RowEnds mine, T* staged, unsigned lane, T* y) {
  Run<T> run;
  run.ends = mine.ends;
#pragma unroll
  for (unsigned i = 0; i < kPerLane; ++i) run.products[i] = staged[place(lane * kPerLane + i)];
  __syncwarp();  // from here on `staged` holds the rows' sums
  T sum = carry_into(run, lane);
  unsigned row = mine.first;
#pragma unroll
  for (unsigned i = 0; i < kPerLane; ++i) {
    sum += run.products[i];
    if (run.ends_with(i)) {
      staged[row++] = sum;
      sum = T{0};
    }
  }
  __syncwarp();
  for (unsigned r = lane; r < static_cast<unsigned>(chunk.rows); r += kWarp)
    y[static_cast<unsigned>(chunk.row) + r] = staged[r];
}

/// One chunk per warp.
template <class T, class Ptr>
__global__ void __launch_bounds__(kWarps* kWarp, kBlocks) balanced(Chunks<T, Ptr> a, const T* x, T* y) {
  __shared__ T all_staged[kWarps][kStaged];
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const unsigned number = blockIdx.x * kWarps + warp;
  if (number >= a.count) return;  // the whole warp leaves
  const Chunk<Ptr> chunk = a.chunk[number];
  const bool of_hub = number < a.of_hubs;
  const RowEnds row_ends = of_hub ? RowEnds{} : a.row_ends[(number - a.of_hubs) * std::size_t{kWarp} + lane];
  T products[kPerLane];
  const auto multiply_from = [&](Ptr begin) {
    Index columns[kPerLane];
#pragma unroll
    for (unsigned u = 0; u < kPerLane; ++u) {
      const Ptr p = begin + static_cast<Ptr>(lane + u * kWarp);
      columns[u] = p < chunk.end ? a.col_idx[p] : kNoColumn;
      products[u] = p < chunk.end ? a.values[p] : T{0};
    }
#pragma unroll
    for (unsigned u = 0; u < kPerLane; ++u) products[u] *= columns[u] != kNoColumn ? x[columns[u]] : T{0};
  };
  if (of_hub) {
    T sum = 0;
    for (Ptr begin = chunk.begin; begin < chunk.end; begin += Ptr{kChunk}) {
      multiply_from(begin);
#pragma unroll
      for (unsigned u = 0; u < kPerLane; ++u) sum += products[u];
    }
    add_to_hub(a, number, chunk.row, sum_of_warp(sum), lane, y);
    return;
  }
  multiply_from(chunk.begin);
  T* staged = all_staged[warp];
#pragma unroll
  for (unsigned u = 0; u < kPerLane; ++u) staged[place(lane + u * kWarp)] = products[u];
  __syncwarp();
  sum_rows(chunk, row_ends, staged, lane, y);
}

/// A matrix with a non-zero in each empty row, which has no column.
template <class T>
Csr<T> without_empty_rows(const Csr<T>& a) {
  Csr<T> filled(a.rows, a.cols);
  for (std::size_t i = 0; i < static_cast<std::size_t>(a.rows); ++i)
    filled.row_ptr[i + 1] = filled.row_ptr[i] + std::max<Offset>(1, a.row_nnz(static_cast<Index>(i)));
  const auto entries = static_cast<std::size_t>(filled.row_ptr.back());
  filled.col_idx.resize(entries);
  filled.values.resize(entries);
  parallel_blocks(a.rows, 4096, 0, [&](int, Offset first, Offset last) {
    for (Offset i = first; i < last; ++i) {
      const Offset from = a.row_ptr[static_cast<std::size_t>(i)];
      const Offset to = filled.row_ptr[static_cast<std::size_t>(i)],
                   length = a.row_nnz(static_cast<Index>(i));
      if (length == 0) {
        filled.col_idx[static_cast<std::size_t>(to)] = kNoColumn;
        filled.values[static_cast<std::size_t>(to)] = T{0};
      } else {
        std::copy_n(a.col_idx.begin() + from, length, filled.col_idx.begin() + to);
        std::copy_n(a.values.begin() + from, length, filled.values.begin() + to);
      }
    }
  });
  return filled;
}

template <class T>
Offset empty_rows(const Csr<T>& a) {
  Offset empty = 0;
  for (Index i = 0; i < a.rows; ++i) empty += a.row_nnz(i) == 0;
  return empty;
}

/// Cuts a matrix without empty rows into chunks: those of hubs, and those of whole rows.
template <class Ptr>
struct Cut {
  std::vector<Chunk<Ptr>> of_hubs, of_rows;
  std::vector<Hub> hubs;
  std::vector<RowEnds> row_ends;  ///< kWarp for each of of_rows

  template <class T>
  explicit Cut(const Csr<T>& a) {
    Offset in_hubs = 0;
    for (Index i = 0; i < a.rows; ++i) in_hubs += a.row_nnz(i) > Offset{kChunk} ? a.row_nnz(i) : 0;
    const Offset share = in_hubs / (kChunksOfSm * device_facts().sms) / kChunk * kChunk;
    of_hub_ = std::clamp(share, Offset{kChunk}, kLargestChunk);
    Index first_row = 0;
    for (Index i = 0; i < a.rows; ++i) {
      if (a.row_nnz(i) > Offset{kChunk}) {
        close(a, first_row, i);
        first_row = i + 1;
        cut_hub(a, i);
      } else if (begin(a, i + 1) - begin(a, first_row) > Offset{kChunk}) {
        close(a, first_row, i);
        first_row = i;
      }
    }
    close(a, first_row, a.rows);
    row_ends.resize(of_rows.size() * kWarp);
    parallel_blocks(std::ssize(of_rows), 1024, 0, [&](int, Offset first, Offset last) {
      for (Offset c = first; c < last; ++c) mark_ends(a, static_cast<std::size_t>(c));
    });
  }

  /// In the order in which they are launched.
  std::vector<Chunk<Ptr>> chunks() const {
    std::vector<Chunk<Ptr>> all = of_hubs;
    all.insert(all.end(), of_rows.begin(), of_rows.end());
    return all;
  }

 private:
  Offset of_hub_ = kChunk;  ///< non-zeros of a hub's chunk

  template <class T>
  static Offset begin(const Csr<T>& a, Index i) {
    return a.row_ptr[static_cast<std::size_t>(i)];
  }

  /// Rows [first_row, end_row), as one chunk.
  template <class T>
  void close(const Csr<T>& a, Index first_row, Index end_row) {
    if (first_row == end_row) return;
    of_rows.push_back({static_cast<Ptr>(begin(a, first_row)), static_cast<Ptr>(begin(a, end_row)), first_row,
                       end_row - first_row});
  }

  template <class T>
  void cut_hub(const Csr<T>& a, Index row) {
    Hub hub{row, narrow<Index>(of_hubs.size(), "the chunks of long rows"), 0};
    const Offset end = begin(a, row + 1);
    for (Offset p = begin(a, row); p < end; p += of_hub_, ++hub.chunks)
      of_hubs.push_back({static_cast<Ptr>(p), static_cast<Ptr>(std::min(end, p + of_hub_)),
                         static_cast<Index>(hubs.size()), 0});
    hubs.push_back(hub);
  }

  /// The last row of a chunk goes on to the end of its places.
  template <class T>
  void mark_ends(const Csr<T>& a, std::size_t c) {
    const Chunk<Ptr>& chunk = of_rows[c];
    RowEnds* const of_lane = row_ends.data() + c * kWarp;
    for (Index r = 0; r < chunk.rows; ++r) {
      const Offset end =
          r + 1 < chunk.rows ? begin(a, chunk.row + r + 1) - begin(a, chunk.row) : Offset{kChunk};
      const auto last = static_cast<unsigned>(end - 1);
      of_lane[last / kPerLane].ends |= static_cast<std::uint8_t>(1u << last % kPerLane);
    }
    for (unsigned lane = 1; lane < kWarp; ++lane) {
      const RowEnds& before = of_lane[lane - 1];
      of_lane[lane].first = static_cast<std::uint8_t>(before.first + std::popcount(before.ends));
    }
  }
};

/// The matrix and its chunks on the device.
template <class T, class Ptr>
class DeviceChunks {
 public:
  /// Of a matrix without empty rows.
  explicit DeviceChunks(const Csr<T>& a) : DeviceChunks(a, Cut<Ptr>(a)) {}

  Chunks<T, Ptr> view() {
    return {narrow<unsigned>(chunks_.size(), "the number of chunks"),
            narrow<unsigned>(partial_.size(), "the number of chunks"),
            chunks_.data(),
            row_ends_.data(),
            columns_.data(),
            values_.data(),
            hubs_.data(),
            arrived_.data(),
            partial_.data()};
  }

 private:
  DeviceChunks(const Csr<T>& a, const Cut<Ptr>& cut)
      : chunks_(std::span<const Chunk<Ptr>>(cut.chunks())),
        row_ends_(std::span<const RowEnds>(cut.row_ends)),
        columns_(std::span<const Index>(a.col_idx)),
        values_(std::span<const T>(a.values)),
        hubs_(std::span<const Hub>(cut.hubs)),
        arrived_(std::span<const int>(std::vector<int>(cut.hubs.size(), 0))),
        partial_(cut.of_hubs.size()) {}

  DeviceArray<Chunk<Ptr>> chunks_;
  DeviceArray<RowEnds> row_ends_;
  DeviceArray<Index> columns_;
  DeviceArray<T> values_;
  DeviceArray<Hub> hubs_;
  DeviceArray<int> arrived_;
  DeviceArray<T> partial_;
};

template <class T>
class Balanced final : public DeviceSpmvPlan<T> {
 public:
  Balanced(const SpmvProblem<T>& problem, Exec& exec)
      : DeviceSpmvPlan<T>(problem, exec),
        matrix_(empty_rows(*problem.a) > 0 ? make_matrix(without_empty_rows(*problem.a))
                                           : make_matrix(*problem.a)) {}

  static Cost cost(const SpmvProblem<T>& problem) {
    const Csr<T>& a = *problem.a;
    // A chunk ends where the next row would not fit, so two neighbours are more than full together.
    const auto empty = static_cast<double>(empty_rows(a));
    const double chunks = 2 * (static_cast<double>(a.nnz()) + empty) / kChunk;
    return problem_cost(problem).plus_memory(device_csr_bytes(a) + (sizeof(Index) + sizeof(T)) * empty +
                                             (32.0 + sizeof(RowEnds) * kWarp) * chunks);
  }

 protected:
  void product(const T* x, T* y) override {
    std::visit([&](auto& a) { multiply_with(a.view(), x, y); }, matrix_);
  }

 private:
  using Matrix = std::variant<DeviceChunks<T, std::int32_t>, DeviceChunks<T, Offset>>;

  /// Two chunks short of 2^31, because the last one counts beyond the end.
  static Matrix make_matrix(const Csr<T>& a) {
    if (std::in_range<std::int32_t>(a.nnz() + Offset{2 * kChunk})) return DeviceChunks<T, std::int32_t>(a);
    return DeviceChunks<T, Offset>(a);
  }
  template <class Ptr>
  void multiply_with(const Chunks<T, Ptr>& a, const T* x, T* y) {
    launch(balanced<T, Ptr>,
           {.grid = blocks_for(a.count, kWarps), .block = kWarps * kWarp, .stream = this->stream()}, a, x, y);
  }

  Matrix matrix_;
};

}  // namespace

void add_balanced(Registry& registry) {
  registry.add<Balanced>({.name = "05_cuda_csr/balanced",
                          .idea = "equal chunks of entries, one a warp; rows added up by a segmented sum",
                          .previous = "balanced_shares"});
}

}  // namespace stages
