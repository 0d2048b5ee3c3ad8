// SpMV by bands of columns: x in shared memory also where it does not fit.
//
// The idea: on a matrix with hundreds of non-zeros a row and no order in its columns, most time goes into
// taking elements of x out of L2, 32 bytes moved for 4 wanted. Shared memory gives single words at full speed,
// but holds 58,000 floats. So the columns are cut into bands that fit. A block copies one band of x, and all
// non-zeros that it multiplies before the next copy lie in that band; their columns, counted from the band's
// first, fit into 16 bits.
//
// A row's part in a band is a segment. The order of segments no longer matters for caches, so prepare sorts
// each band's by length and lays them out in tiles, one for a warp at a time:
//
// - A lane takes eight non-zeros a step, so a step of the warp is 256 non-zeros, side by side: three loads of
//   16 bytes a lane (float), all coalesced, whatever the rows look like.
// - A segment belongs to a sub-warp of 1, 2, .. 32 lanes, just enough that a tile takes few steps. Neighbours
//   in the sorted order are about equally long, so all sub-warps of a tile end together.
// - What is missing in the last step is filled with zeros whose column is one beyond the band's last, where
//   the block keeps a zero of x. So no test is needed, and an infinity in x harms no other row.
//
// Blocks stay, as many as the chip holds at once, and each takes an equal share of all steps, band after band:
// only at the seam of two bands does a block copy twice. With several bands each segment's sum goes to a
// table, and a second small kernel adds up each row's, in the order of the bands: the same bits in every run.
//
// Input: any CSR matrix. Cost: (2 + sizeof(T)) x nnz bytes of matrix, (4 + 2 x sizeof(T)) x rows x bands for
// segments, and a copy of a band by each block. It pays where segments are long: nnz / (rows x bands) >= 20.
//
// Sources: cutting by columns so that x stays near is cache blocking (E.-J. Im, K. Yelick and R. Vuduc,
// "Sparsity", IJHPCA 18, 2004); sorted and sliced rows are SELL-C-sigma (M. Kreutzer et al., SIAM J. Sci.
// Comput. 36, 2014).

#include <algorithm>
#include <bit>
#include <numeric>

#include "05_cuda_csr/fast/packs.hpp"
#include "05_cuda_csr/stage.hpp"
#include "common/gpu/cuda.hpp"
#include "common/gpu/facts.hpp"
#include "common/gpu/plans.hpp"
#include "common/matrix/parallel.hpp"

namespace stages {
namespace {

constexpr Offset kPack = 8;              ///< non-zeros that a lane takes at once
constexpr Offset kStep = kPack * kWarp;  ///< non-zeros that a warp takes at once
constexpr Offset kMostSteps = 32;        ///< of a tile, before a segment gets more lanes
constexpr Offset kTileCost = 2;          ///< a tile costs about as much as so many steps more
constexpr Offset kMostBandColumns = 65535;

/// One warp's work: 32 / team segments, each of a sub-warp of `team` lanes. Non-zero e of segment q is at
/// (first_step + e / (8 team)) * 256 + (q team) * 8 + e % (8 team): each lane has eight in a row.
struct alignas(16) Tile {
  Index first_step = 0;  ///< in steps of 256 non-zeros
  Index steps = 0;
  Index first_segment = 0;
  Index team = 1;  ///< lanes of a segment
};

/// Tiles [first, last) of one band, for one block.
struct alignas(16) Job {
  Index band = 0;
  Index first = 0;
  Index last = 0;
};

template <class T>
struct Bands {
  Index rows = 0, cols = 0;
  Index band_columns = 0;
  const Index* job_ptr = nullptr;  ///< block b does jobs job_ptr[b] .. job_ptr[b + 1] - 1
  const Job* jobs = nullptr;
  const Tile* tiles = nullptr;
  const Index* row_of = nullptr;           ///< of each segment; -1: filling
  const std::uint16_t* col_idx = nullptr;  ///< from the band's first; band_columns: the zero
  const T* values = nullptr;
};

/// sums[band * rows + row] = that segment times x. Dynamic shared memory: band_columns + 1 elements.
template <class T>
__global__ void __launch_bounds__(1024, 1) column_bands(Bands<T> a, const T* x, T* sums) {
  T* near_x = dynamic_shared<T>();
  const unsigned lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
  for (Index number = a.job_ptr[blockIdx.x]; number < a.job_ptr[blockIdx.x + 1]; ++number) {
    const Job job = a.jobs[number];
    const Offset first_column = Offset{job.band} * a.band_columns;
    const auto columns = static_cast<unsigned>(min(Offset{a.band_columns}, a.cols - first_column));
    __syncthreads();  // nobody may still read the band before
#pragma unroll 8
    for (unsigned j = threadIdx.x; j < columns; j += blockDim.x) near_x[j] = x[first_column + j];
    if (threadIdx.x == 0) near_x[a.band_columns] = T{0};
    __syncthreads();
    for (Index t = job.first + static_cast<Index>(threadIdx.x / kWarp); t < job.last;
         t += static_cast<Index>(warps)) {
      const Tile tile = a.tiles[t];
      const auto team = static_cast<unsigned>(tile.team);
      const Index row = a.row_of[tile.first_segment + static_cast<Index>(lane / team)];
      const Offset at = tile.first_step * kStep + lane * kPack;
      T sum = 0;
#pragma unroll 2
      for (Index s = 0; s < tile.steps; ++s) {
        const Pack<unsigned, 8> column = load_eight(a.col_idx + at + s * kStep);
        const Pack<T, 8> value = load_eight(a.values + at + s * kStep);
#pragma unroll
        for (int k = 0; k < kPack; ++k) sum += value.v[k] * near_x[column.v[k]];
      }
      for (unsigned d = team / 2; d > 0; d /= 2) {
        sum += __shfl_down_sync(kAllLanes, sum, d, static_cast<int>(team));
      }
      if (lane % team == 0 && row >= 0) sums[Offset{job.band} * a.rows + row] = sum;
    }
  }
}

/// y[i] = the sum of row i's segments.
template <class T>
__global__ void add_bands(const T* sums, Index rows, Index bands, T* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= static_cast<unsigned>(rows)) return;
  T sum = 0;
  for (Index band = 0; band < bands; ++band) sum += sums[Offset{band} * rows + i];
  y[i] = sum;
}

/// Columns of a band: what shared memory holds besides the zero, or fewer, so that all are equally wide.
Index band_columns_for(Index cols, std::size_t element_bytes) {
  const Offset capacity = std::min<Offset>(
      static_cast<Offset>(device_facts().shared_per_block_optin / element_bytes) - 1, kMostBandColumns);
  const Offset bands = std::max<Offset>(1, (cols + capacity - 1) / capacity);
  return static_cast<Index>(std::max<Offset>(1, (cols + bands - 1) / bands));
}
Index bands_for(Index cols, Index band_columns) {
  return std::max<Index>(1, static_cast<Index>((Offset{cols} + band_columns - 1) / band_columns));
}

/// The matrix cut into bands, on the host.
template <class T>
class HostBands {
 public:
  HostBands(const Csr<T>& a, Index band_columns, Index bands, unsigned blocks, Offset warps)
      : a_(a), band_columns_(band_columns), rows_(static_cast<std::size_t>(a.rows)) {
    find_segments(bands);
    // Short tiles where the matrix would not keep all warps busy otherwise.
    longest_tile_ = std::clamp<Offset>(a.nnz() / kStep / (2 * warps), 1, kMostSteps);
    for (Index band = 0; band < bands; ++band) {
      band_first_tile_.push_back(std::ssize(tiles));
      cut_band(band);
    }
    band_first_tile_.push_back(std::ssize(tiles));
    fill();
    share(blocks);
  }

  std::vector<Tile> tiles;
  std::vector<Index> row_of;
  std::vector<Index> job_ptr;
  std::vector<Job> jobs;
  Buffer<std::uint16_t> columns;
  Buffer<T> values;

 private:
  /// begin_[band * rows + row]: where the row's columns of that band begin.
  void find_segments(Index bands) {
    begin_.resize((static_cast<std::size_t>(bands) + 1) * rows_);
    parallel_blocks(a_.rows, 1024, 0, [&](int, Offset first, Offset last) {
      for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
        Offset p = a_.row_ptr[i];
        for (Index band = 0; band <= bands; ++band) {
          const Offset column = Offset{band} * band_columns_;
          p = std::lower_bound(a_.col_idx.begin() + p, a_.col_idx.begin() + a_.row_ptr[i + 1], column) -
              a_.col_idx.begin();
          begin_[static_cast<std::size_t>(band) * rows_ + i] = p;
        }
      }
    });
  }
  Offset length(Index band, Index row) const {
    const std::size_t s = static_cast<std::size_t>(band) * rows_ + static_cast<std::size_t>(row);
    return begin_[s + rows_] - begin_[s];
  }

  /// The rows by length of their segments, longest first; among equals in their order.
  std::vector<Index> rows_by_length(Index band) const {
    std::vector<Index> rows(rows_);
    std::iota(rows.begin(), rows.end(), 0);
    std::stable_sort(rows.begin(), rows.end(),
                     [&](Index i, Index j) { return length(band, i) > length(band, j); });
    return rows;
  }

  void cut_band(Index band) {
    const std::vector<Index> rows = rows_by_length(band);
    for (std::size_t next = 0; next < rows.size();) {
      const Offset longest = length(band, rows[next]);
      const auto wanted =
          static_cast<std::uint64_t>((longest + kPack * longest_tile_ - 1) / (kPack * longest_tile_));
      const auto team = static_cast<Offset>(std::min<std::uint64_t>(std::bit_ceil(wanted), kWarp));
      const Offset steps = (longest + kPack * team - 1) / (kPack * team);
      tiles.push_back({narrow<Index>(steps_, "the number of steps"), narrow<Index>(steps),
                       narrow<Index>(std::ssize(row_of), "the number of segments"),
                       static_cast<Index>(team)});
      steps_ += steps;
      for (Offset q = 0; q < Offset{kWarp} / team; ++q, ++next)
        row_of.push_back(next < rows.size() ? rows[next] : -1);
    }
  }

  void fill() {
    columns.resize(static_cast<std::size_t>(steps_ * kStep));
    values.resize(columns.size());
    for (Index band = 0; band + 1 < std::ssize(band_first_tile_); ++band) {
      const Offset first_tile = band_first_tile_[static_cast<std::size_t>(band)];
      const Offset tiles_here = band_first_tile_[static_cast<std::size_t>(band) + 1] - first_tile;
      parallel_blocks(tiles_here, 64, 0, [&](int, Offset first, Offset last) {
        for (Offset t = first; t < last; ++t)
          fill_tile(band, tiles[static_cast<std::size_t>(first_tile + t)]);
      });
    }
  }
  void fill_tile(Index band, const Tile& tile) {
    const Offset width = kPack * tile.team;
    for (Offset q = 0; q < Offset{kWarp} / tile.team; ++q) {
      const Index row = row_of[static_cast<std::size_t>(tile.first_segment + q)];
      const Offset count = row < 0 ? 0 : length(band, row);
      const auto from = static_cast<std::size_t>(
          row < 0 ? 0 : begin_[static_cast<std::size_t>(band) * rows_ + static_cast<std::size_t>(row)]);
      for (Offset e = 0; e < tile.steps * width; ++e) {
        const auto to =
            static_cast<std::size_t>((tile.first_step + e / width) * kStep + q * width + e % width);
        const std::size_t k = from + static_cast<std::size_t>(e);
        columns[to] =
            static_cast<std::uint16_t>(e < count ? a_.col_idx[k] - band * band_columns_ : band_columns_);
        values[to] = e < count ? a_.values[k] : T{0};
      }
    }
  }

  /// Cuts the tiles into equal shares for the blocks.
  void share(unsigned blocks) {
    const Offset total = steps_ + kTileCost * std::ssize(tiles);
    Offset done = 0;
    std::size_t band = 0;
    Index first = 0;
    const auto end_job = [&](std::size_t t) {
      const auto last = static_cast<Index>(t);
      if (last > first) jobs.push_back({static_cast<Index>(band), first, last});
      first = last;
    };
    job_ptr.push_back(0);
    for (std::size_t t = 0; t < tiles.size(); ++t) {
      while (band_first_tile_[band + 1] <= static_cast<Offset>(t)) {
        end_job(t);
        ++band;
      }
      while (job_ptr.size() < blocks && done * blocks >= total * std::ssize(job_ptr)) {
        end_job(t);
        job_ptr.push_back(static_cast<Index>(jobs.size()));
      }
      done += tiles[t].steps + kTileCost;
    }
    end_job(tiles.size());
    job_ptr.resize(blocks + 1, static_cast<Index>(jobs.size()));
  }

  const Csr<T>& a_;
  Index band_columns_;
  std::size_t rows_;
  Offset longest_tile_ = 0;  ///< in steps
  Offset steps_ = 0;
  std::vector<Offset> begin_;
  std::vector<Offset> band_first_tile_;
};

template <class T>
class ColumnBands final : public DeviceSpmvPlan<T> {
 public:
  ColumnBands(const SpmvProblem<T>& problem, Exec& exec)
      : DeviceSpmvPlan<T>(problem, exec),
        band_columns_(band_columns_for(problem.a->cols, sizeof(T))),
        bands_(bands_for(problem.a->cols, band_columns_)),
        shared_bytes_((static_cast<std::size_t>(band_columns_) + 1) * sizeof(T)) {
    const DeviceFacts& device = device_facts();
    // Blocks just large enough that 1024 threads share an SM with their copies of x.
    while (block_ < 1024 && device.shared_per_sm / (shared_bytes_ + 1024) * block_ < 1024) block_ *= 2;
    allow_shared_bytes(column_bands<T>, shared_bytes_);
    const int resident = resident_blocks_per_sm(column_bands<T>, static_cast<int>(block_), shared_bytes_);
    grid_ = static_cast<unsigned>(std::max(1, resident) * device.sms);
    const Csr<T>& a = *problem.a;
    const HostBands<T> host(a, band_columns_, bands_, grid_, Offset{grid_} * (block_ / kWarp));
    tiles_ = DeviceArray<Tile>(std::span<const Tile>(host.tiles));
    row_of_ = DeviceArray<Index>(std::span<const Index>(host.row_of));
    job_ptr_ = DeviceArray<Index>(std::span<const Index>(host.job_ptr));
    jobs_ = DeviceArray<Job>(std::span<const Job>(host.jobs));
    columns_ = DeviceArray<std::uint16_t>(std::span<const std::uint16_t>(host.columns));
    values_ = DeviceArray<T>(std::span<const T>(host.values));
    if (bands_ > 1)
      sums_ = DeviceArray<T>(static_cast<std::size_t>(bands_) * static_cast<std::size_t>(a.rows));
  }

  static Cost cost(const SpmvProblem<T>& problem) {
    const Csr<T>& a = *problem.a;
    const double segments =
        static_cast<double>(bands_for(a.cols, band_columns_for(a.cols, sizeof(T)))) * a.rows;
    Cost cost = problem_cost(problem);
    cost.memory += (2.0 + sizeof(T)) * (1.25 * static_cast<double>(a.nnz()) + kPack / 2 * segments) +
                   (5.0 + sizeof(T)) * segments;
    cost.work += segments * problem.n_vectors;
    return cost;
  }

  std::vector<Metric> metrics() const override {
    const double entries = static_cast<double>(this->a().nnz());
    return {{"bands", static_cast<double>(bands_), ""},
            {"filling", entries == 0 ? 0 : static_cast<double>(values_.size()) / entries - 1, ""},
            {"matrix_bytes", static_cast<double>(columns_.bytes() + values_.bytes()), "B"}};
  }

 protected:
  void product(const T* x, T* y) override {
    const Index rows = this->a().rows;
    T* const sums = bands_ > 1 ? sums_.data() : y;
    const Bands<T> view{rows,          this->a().cols, band_columns_,   job_ptr_.data(), jobs_.data(),
                        tiles_.data(), row_of_.data(), columns_.data(), values_.data()};
    launch(column_bands<T>,
           {.grid = grid_, .block = block_, .shared_bytes = shared_bytes_, .stream = this->stream()}, view, x,
           sums);
    if (bands_ == 1) return;
    constexpr unsigned kBlock = 256;
    launch(add_bands<T>, {.grid = blocks_for(rows, kBlock), .block = kBlock, .stream = this->stream()}, sums,
           rows, bands_, y);
  }

 private:
  Index band_columns_, bands_;
  std::size_t shared_bytes_;
  unsigned block_ = 256, grid_ = 0;
  DeviceArray<Tile> tiles_;
  DeviceArray<Index> row_of_;
  DeviceArray<Index> job_ptr_;
  DeviceArray<Job> jobs_;
  DeviceArray<std::uint16_t> columns_;
  DeviceArray<T> values_;
  DeviceArray<T> sums_;
};

}  // namespace

void add_column_bands(Registry& registry) {
  registry.add<ColumnBands>(
      {.name = "05_cuda_csr/column_bands",
       .idea = "a CSR for each band of columns that fits into shared memory, 16-bit columns",
       .previous = "balanced"});
}

}  // namespace stages
