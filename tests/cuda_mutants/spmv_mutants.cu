// SpMV kernels with planted faults: a warp per row, tiles of x in shared memory, a row in several chunks,
// equal shares of the non-zeros.

#include <algorithm>

#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"
#include "common/matrix/convert.hpp"
#include "tests/cuda_mutants/mutants.hpp"

namespace stages::cuda_mutants {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

template <template <class> class PlanOf, class Fault>
Entry entry_with(const char* name, Fault fault) {
  Registry registry;
  registry.add<PlanOf>({.name = name, .idea = "a planted fault", .needs = {.gpu = true}}, fault);
  return registry.entries().front();
}

// ---- a warp per row ---------------------------------------------------------------------------------------

template <class T>
__global__ void warp_per_row(CsrView<T> a, const T* x, T* y, RowFault fault) {
  const unsigned row = blockIdx.x * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  const unsigned lane = threadIdx.x % kWarp;
  if (row >= static_cast<unsigned>(a.rows)) return;
  T sum = 0;
  for (Offset p = a.row_ptr[row] + lane; p < a.row_ptr[row + 1]; p += kWarp) {
    const Index column = a.col_idx[p];
    sum += a.values[p] * x[fault == RowFault::narrow_columns ? static_cast<std::uint16_t>(column) : column];
  }
  const unsigned mask = fault == RowFault::wrong_mask ? 0xffffu : kAllLanes;
  for (unsigned d = fault == RowFault::half_reduced ? 8 : 16; d > 0; d /= 2) {
    sum += __shfl_down_sync(mask, sum, d);
  }
  if (lane != 0) return;
  y[row] = fault == RowFault::unzeroed ? y[row] + sum : sum;
}

template <class T>
class RowPlan final : public DeviceSpmvPlan<T> {
 public:
  RowPlan(const SpmvProblem<T>& problem, Exec& exec, RowFault fault)
      : DeviceSpmvPlan<T>(problem, exec), matrix_(*problem.a), fault_(fault) {}

  static Cost cost(const SpmvProblem<T>& problem) { return problem_cost(problem); }

 protected:
  void product(const T* x, T* y) override {
    const unsigned rows = static_cast<unsigned>(this->a().rows), per_block = 4;
    const unsigned full = rows / per_block, all = blocks_for(rows, per_block);
    LaunchConfig config{.grid = fault_ == RowFault::missing_tail ? full : all,
                        .block = per_block * kWarp,
                        .stream = this->stream()};
    if (fault_ == RowFault::failed_launch) config.block = 4096;
    const T* const read = fault_ == RowFault::one_vector && !this->chain() ? this->x_of(0) : x;
    try {
      launch(warp_per_row<T>, config, matrix_.view(), read, y, fault_);
    } catch (const Error&) {
      if (fault_ != RowFault::failed_launch) throw;
    }
  }

 private:
  DeviceCsr<T, Offset> matrix_;
  RowFault fault_;
};

// ---- tiles of x in shared memory --------------------------------------------------------------------------

constexpr Index kTile = 32;
constexpr unsigned kTileBlock = 128;

/// The last warp copies each tile, after a while: without barriers the others are certainly not in step.
template <class T>
__global__ void tiled(DenseView<const T> a, const T* x, T* y, TileFault fault) {
  __shared__ T tile[kTile];
  const unsigned row = blockIdx.x * kTileBlock + threadIdx.x;
  const bool has_row = row < static_cast<unsigned>(a.rows);
  if (fault == TileFault::tail_leaves_early && !has_row) return;
  const bool copies = threadIdx.x >= kTileBlock - kWarp;
  const Index end = fault == TileFault::missing_last_tile ? a.cols / kTile * kTile : a.cols;
  T sum = 0;
  for (Index first = 0; first < end; first += kTile) {
    if (fault != TileFault::no_barrier_before_copy) __syncthreads();
    const Index k = first + static_cast<Index>(threadIdx.x % kWarp);
    if (copies && fault != TileFault::no_barrier_before_copy) __nanosleep(2000);
    if (copies && k < end) tile[k - first] = x[k];
    if (fault != TileFault::no_barrier_after_copy) __syncthreads();
    if (!copies && fault == TileFault::no_barrier_before_copy) __nanosleep(2000);
    for (Index j = first; has_row && j < min(end, first + kTile); ++j)
      sum += a(static_cast<Index>(row), j) * tile[j - first];
  }
  if (has_row) y[row] = sum;
}

template <class T>
class TilePlan final : public DeviceSpmvPlan<T> {
 public:
  TilePlan(const SpmvProblem<T>& problem, Exec& exec, TileFault fault)
      : DeviceSpmvPlan<T>(problem, exec),
        dense_(std::span<const T>(to_dense(*problem.a).data)),
        fault_(fault) {}

  static Cost cost(const SpmvProblem<T>& problem) { return problem_cost(problem); }

 protected:
  void product(const T* x, T* y) override {
    const Csr<T>& a = this->a();
    const DenseView<const T> dense{a.rows, a.cols, a.cols, Layout::row_major, dense_.data()};
    launch(tiled<T>, {.grid = blocks_for(a.rows, kTileBlock), .block = kTileBlock, .stream = this->stream()},
           dense, x, y, fault_);
  }

 private:
  DeviceArray<T> dense_;
  TileFault fault_;
};

// ---- a row in several chunks ------------------------------------------------------------------------------

constexpr unsigned kChunk = 64;

/// Block (c, r) takes chunk c of row r; `arrived` counts for each row, `partial` has `chunks` places for
/// each.
template <class T>
__global__ void chunk_per_block(CsrView<T> a, const T* x, T* y, int* arrived, T* partial, HubFault fault) {
  const unsigned row = blockIdx.y, lane = threadIdx.x;
  const Offset begin = a.row_ptr[row], end = a.row_ptr[row + 1];
  const Offset length = end - begin,
               rounded = fault == HubFault::last_chunk_lost ? length : length + kChunk - 1;
  const int chunks = static_cast<int>(max(Offset{1}, rounded / kChunk));
  if (static_cast<int>(blockIdx.x) >= chunks) return;
  T sum = 0;
  for (unsigned u = lane; u < kChunk; u += kWarp) {
    const Offset p = begin + Offset{blockIdx.x} * kChunk + u;
    if (p < end) sum += a.values[p] * x[a.col_idx[p]];
  }
  for (unsigned d = kWarp / 2; d > 0; d /= 2) sum += __shfl_down_sync(kAllLanes, sum, d);
  if (lane != 0) return;
  // The others come late, so that the first to arrive is certainly alone.
  if (fault == HubFault::adds_too_early && blockIdx.x > 0) __nanosleep(50'000);
  T* const parts = partial + std::size_t{row} * gridDim.x;
  parts[blockIdx.x] = sum;
  if (fault != HubFault::no_fence) __threadfence();
  const int before = atomicAdd(&arrived[row], 1);
  if (before != (fault == HubFault::adds_too_early ? 0 : chunks - 1)) return;
  __threadfence();
  T total = 0;
  for (int c = 0; c < chunks; ++c) total += __ldcg(&parts[c]);
  y[row] = total;
  if (fault != HubFault::counter_not_reset && fault != HubFault::adds_too_early) arrived[row] = 0;
}

template <class T>
class HubPlan final : public DeviceSpmvPlan<T> {
 public:
  HubPlan(const SpmvProblem<T>& problem, Exec& exec, HubFault fault)
      : DeviceSpmvPlan<T>(problem, exec), matrix_(*problem.a), fault_(fault) {
    const Csr<T>& a = *problem.a;
    for (Index i = 0; i < a.rows; ++i) {
      chunks_ = std::max(chunks_, static_cast<unsigned>((a.row_nnz(i) + kChunk - 1) / kChunk));
    }
    arrived_ = DeviceArray<int>(static_cast<std::size_t>(a.rows));
    arrived_.zero(this->stream());
    partial_ = DeviceArray<T>(static_cast<std::size_t>(a.rows) * chunks_);
    partial_.fill_bytes(0xFF, this->stream());
  }

  static Cost cost(const SpmvProblem<T>& problem) { return problem_cost(problem); }

 protected:
  void product(const T* x, T* y) override {
    launch(
        chunk_per_block<T>,
        {.grid = {chunks_, static_cast<unsigned>(this->a().rows)}, .block = kWarp, .stream = this->stream()},
        matrix_.view(), x, y, arrived_.data(), partial_.data(), fault_);
    // The first to arrive cannot reset the counter: the next would be first again, and the last one right.
    if (fault_ == HubFault::adds_too_early) arrived_.zero(this->stream());
  }

 private:
  DeviceCsr<T, Offset> matrix_;
  unsigned chunks_ = 1;
  DeviceArray<int> arrived_;
  DeviceArray<T> partial_;
  HubFault fault_;
};

// ---- equal shares of the non-zeros ------------------------------------------------------------------------

constexpr unsigned kShare = 64;

/// Block s takes share s. first_row[s]: the first row that ends in share s or later.
template <class T>
__global__ void share_per_block(CsrView<T> a, const Index* first_row, const T* x, T* y, T* carry,
                                ShareFault fault) {
  __shared__ T products[kShare];
  const unsigned share = blockIdx.x, lane = threadIdx.x;
  const Offset begin = Offset{share} * kShare, end = min(begin + kShare, a.row_ptr[a.rows]);
  for (Offset p = begin + lane; p < end; p += kWarp) products[p - begin] = a.values[p] * x[a.col_idx[p]];
  if (fault != ShareFault::no_syncwarp) __syncwarp();
  const Index goes_on = first_row[share + 1];
  for (Index row = first_row[share] + Index(lane); row <= goes_on && row < a.rows; row += kWarp) {
    T sum = 0;
    for (Offset p = max(begin, a.row_ptr[row]); p < min(end, a.row_ptr[row + 1]); ++p)
      sum += products[p - begin];
    (row < goes_on ? y[row] : carry[share]) = sum;
  }
}

template <class T>
__global__ void add_carries(CsrView<T> a, const Index* first_row, T* y, const T* carry, ShareFault fault) {
  const unsigned share = blockIdx.x;
  const Index row = first_row[share];
  if (row == first_row[share + 1]) return;
  const auto begun = static_cast<unsigned>(a.row_ptr[row] / kShare);
  const unsigned from = fault == ShareFault::one_carry ? max(begun + 1, share) - 1 : begun;
  T sum = 0;
  for (unsigned before = from; before < share; ++before) sum += carry[before];
  if (from < share) y[row] += sum;
}

template <class T>
class SharePlan final : public DeviceSpmvPlan<T> {
 public:
  SharePlan(const SpmvProblem<T>& problem, Exec& exec, ShareFault fault)
      : DeviceSpmvPlan<T>(problem, exec), matrix_(*problem.a), fault_(fault) {
    const Csr<T>& a = *problem.a;
    std::vector<Index> first_row{0};
    for (Offset begin = kShare; begin < a.nnz(); begin += kShare) {
      const auto end = std::upper_bound(a.row_ptr.begin() + 1, a.row_ptr.end(), begin);
      first_row.push_back(static_cast<Index>(end - a.row_ptr.begin() - 1));
    }
    first_row.push_back(a.rows);
    first_row_ = DeviceArray<Index>(std::span<const Index>(first_row));
    carry_ = DeviceArray<T>(first_row.size() - 1);
    carry_.zero(this->stream());
  }

  static Cost cost(const SpmvProblem<T>& problem) { return problem_cost(problem); }

 protected:
  void product(const T* x, T* y) override {
    if (fault_ == ShareFault::carries_first) add(y);
    launch(share_per_block<T>, {.grid = shares(), .block = kWarp, .stream = this->stream()}, matrix_.view(),
           first_row_.data(), x, y, carry_.data(), fault_);
    if (fault_ != ShareFault::carries_first && fault_ != ShareFault::carries_forgotten) add(y);
  }

 private:
  unsigned shares() const { return static_cast<unsigned>(carry_.size()); }
  void add(T* y) {
    launch(add_carries<T>, {.grid = shares(), .block = 1, .stream = this->stream()}, matrix_.view(),
           first_row_.data(), y, carry_.data(), fault_);
  }

  DeviceCsr<T, Offset> matrix_;
  DeviceArray<Index> first_row_;
  DeviceArray<T> carry_;
  ShareFault fault_;
};

}  // namespace

Entry row_entry(RowFault fault) {
  return entry_with<RowPlan>("mutant/rows", fault);
}
Entry tile_entry(TileFault fault) {
  return entry_with<TilePlan>("mutant/tiles", fault);
}
Entry hub_entry(HubFault fault) {
  return entry_with<HubPlan>("mutant/hub", fault);
}
Entry share_entry(ShareFault fault) {
  return entry_with<SharePlan>("mutant/shares", fault);
}

}  // namespace stages::cuda_mutants
