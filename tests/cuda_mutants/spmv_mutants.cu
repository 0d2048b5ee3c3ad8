// SpMV kernels with planted faults: a warp per row, tiles of x in shared memory, a row in several chunks.

#include <algorithm>
#include <optional>

#include "common/matrix/convert.hpp"
#include "tests/cuda_mutants/faulty_plan.hpp"

namespace stages::cuda_mutants {
namespace {

// ---- a warp per row ---------------------------------------------------------------------------------------

template <class T>
__global__ void warp_per_row(CsrView<T> a, const T* x, T* y, Fault fault) {
  const unsigned row = blockIdx.x * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  const unsigned lane = threadIdx.x % kWarp;
  if (row >= static_cast<unsigned>(a.rows)) return;
  T sum = 0;
  for (Offset p = a.row_ptr[row] + lane; p < a.row_ptr[row + 1]; p += kWarp) {
    const Index column = a.col_idx[p];
    sum += a.values[p] * x[fault == Fault::narrow_columns ? static_cast<std::uint16_t>(column) : column];
  }
  const unsigned mask = fault == Fault::wrong_mask ? 0xffffu : kAllLanes;
  for (unsigned d = fault == Fault::half_reduced ? 8 : 16; d > 0; d /= 2) {
    sum += __shfl_down_sync(mask, sum, d);
  }
  if (lane != 0) return;
  y[row] = fault == Fault::unzeroed ? y[row] + sum : sum;
}

template <class T>
class RowPlan final : public FaultySpmv<T> {
 public:
  using FaultySpmv<T>::FaultySpmv;

 protected:
  void product(const T* x, T* y) override {
    const unsigned rows = static_cast<unsigned>(this->a().rows), per_block = 4;
    const unsigned full = rows / per_block, all = blocks_for(rows, per_block);
    LaunchConfig config{.grid = this->has(Fault::missing_tail) ? full : all,
                        .block = this->has(Fault::failed_launch) ? 4096 : per_block * kWarp,
                        .stream = this->stream()};
    const T* const read = this->has(Fault::one_vector) && !this->chain() ? this->x_of(0) : x;
    try {
      launch(warp_per_row<T>, config, this->matrix_.view(), read, y, this->fault_);
    } catch (const Error&) {
      if (!this->has(Fault::failed_launch)) throw;
    }
  }
};

// ---- the same, multiplied where nobody times it -------------------------------------------------------------

template <class T>
__global__ void copy(const T* from, T* to, unsigned count) {
  const unsigned i = blockIdx.x * kWarp + threadIdx.x;
  if (i < count) to[i] = from[i];
}

template <class T>
class InRunPlan final : public FaultySpmv<T> {
 public:
  InRunPlan(const SpmvProblem<T>& problem, Exec& exec, Fault fault)
      : FaultySpmv<T>(problem, exec, fault), kept_(static_cast<std::size_t>(problem.a->rows)) {}

  void load(const SpmvOperands<T>& operands) override {
    DeviceSpmvPlan<T>::load(operands);
    runs_ = 0;
    if (this->has(Fault::copies_from_load) || this->has(Fault::copies_by_a_kernel)) {
      multiply(this->x_of(0), kept_.data(), this->stream());
      this->exec().synchronize();
    }
  }
  void reset() override {
    DeviceSpmvPlan<T>::reset();
    runs_ = 0;
    was_run_ = false;
  }
  Dense<T> fetch() override {
    if (this->has(Fault::multiplies_in_fetch) && was_run_)
      multiply(this->x_of(0), this->y_of(0), this->stream());
    Dense<T> y = DeviceSpmvPlan<T>::fetch();
    if (!this->has(Fault::first_answer)) return y;
    if (!first_) first_ = y;
    return *first_;
  }

 protected:
  void product(const T* x, T* y) override {
    ++runs_;
    was_run_ = true;
    const auto rows = static_cast<unsigned>(this->a().rows);
    if (this->has(Fault::copies_from_load)) {
      STAGES_CUDA(cudaMemcpyAsync(y, kept_.data(), kept_.bytes(), cudaMemcpyDeviceToDevice, this->stream()));
    } else if (this->has(Fault::copies_by_a_kernel)) {
      this->launch_warps(copy<T>, blocks_for(rows, kWarp), kept_.data(), y, rows);
    } else if (this->has(Fault::on_the_host)) {
      on_the_host(x, y);
    } else if (this->has(Fault::in_another_stream)) {
      multiply(x, y, other_);
    } else if (!this->has(Fault::multiplies_in_fetch) && (!this->has(Fault::replays) || runs_ == 1)) {
      multiply(x, y, this->stream());
    }
  }

 private:
  void multiply(const T* x, T* y, cudaStream_t stream) {
    launch(warp_per_row<T>, {.grid = blocks_for(this->a().rows, 1), .block = kWarp, .stream = stream},
           this->matrix_.view(), x, y, Fault::none);
  }

  void on_the_host(const T* x, T* y) {
    const Csr<T>& a = this->a();
    std::vector<T> from(static_cast<std::size_t>(a.cols)), to;
    STAGES_CUDA(
        cudaMemcpyAsync(from.data(), x, from.size() * sizeof(T), cudaMemcpyDeviceToHost, this->stream()));
    this->exec().synchronize();
    for (Index i = 0; i < a.rows; ++i) {
      const auto columns = row_columns(a, i);
      to.push_back(0);
      for (std::size_t k = 0; k < columns.size(); ++k)
        to.back() += row_values(a, i)[k] * from[static_cast<std::size_t>(columns[k])];
    }
    STAGES_CUDA(cudaMemcpyAsync(y, to.data(), to.size() * sizeof(T), cudaMemcpyHostToDevice, this->stream()));
    this->exec().synchronize();
  }

  DeviceArray<T> kept_;
  Stream other_;
  std::optional<Dense<T>> first_;
  int runs_ = 0;          // since the last load or reset
  bool was_run_ = false;  // since the last reset
};

// ---- tiles of x in shared memory --------------------------------------------------------------------------

constexpr Index kTile = 32;
constexpr unsigned kTileBlock = 128;

/// The last warp copies each tile, after a while: without barriers the others are certainly not in step.
template <class T>
__global__ void tiled(DenseView<const T> a, const T* x, T* y, Fault fault) {
  __shared__ T tile[kTile];
  const unsigned row = blockIdx.x * kTileBlock + threadIdx.x;
  const bool has_row = row < static_cast<unsigned>(a.rows);
  if (fault == Fault::tail_leaves_early && !has_row) return;
  const bool copies = threadIdx.x >= kTileBlock - kWarp;
  const Index end = fault == Fault::missing_last_tile ? a.cols / kTile * kTile : a.cols;
  T sum = 0;
  for (Index first = 0; first < end; first += kTile) {
    if (fault != Fault::no_barrier_before_copy) __syncthreads();
    const Index k = first + static_cast<Index>(threadIdx.x % kWarp);
    if (copies && fault != Fault::no_barrier_before_copy) __nanosleep(2000);
    if (copies && k < end) tile[k - first] = x[k];
    if (fault != Fault::no_barrier_after_copy) __syncthreads();
    if (!copies && fault == Fault::no_barrier_before_copy) __nanosleep(2000);
    for (Index j = first; has_row && j < min(end, first + kTile); ++j)
      sum += a(static_cast<Index>(row), j) * tile[j - first];
  }
  if (has_row) y[row] = sum;
}

template <class T>
class TilePlan final : public FaultySpmv<T> {
 public:
  TilePlan(const SpmvProblem<T>& problem, Exec& exec, Fault fault)
      : FaultySpmv<T>(problem, exec, fault), dense_(std::span<const T>(to_dense(*problem.a).data)) {}

 protected:
  void product(const T* x, T* y) override {
    const Csr<T>& a = this->a();
    const DenseView<const T> dense{a.rows, a.cols, a.cols, Layout::row_major, dense_.data()};
    launch(tiled<T>, {.grid = blocks_for(a.rows, kTileBlock), .block = kTileBlock, .stream = this->stream()},
           dense, x, y, this->fault_);
  }

 private:
  DeviceArray<T> dense_;
};

// ---- a row in several chunks ------------------------------------------------------------------------------

constexpr unsigned kChunk = 64;

/// Block (c, r) takes chunk c of row r; `arrived` counts for each row, `partial` has `chunks` places for
/// each.
template <class T>
__global__ void chunk_per_block(CsrView<T> a, const T* x, T* y, int* arrived, T* partial, Fault fault) {
  const unsigned row = blockIdx.y, lane = threadIdx.x;
  const Offset begin = a.row_ptr[row], end = a.row_ptr[row + 1];
  const Offset length = end - begin, rounded = fault == Fault::last_chunk_lost ? length : length + kChunk - 1;
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
  if (fault == Fault::adds_too_early && blockIdx.x > 0) __nanosleep(50'000);
  T* const parts = partial + std::size_t{row} * gridDim.x;
  parts[blockIdx.x] = sum;
  if (fault != Fault::no_fence) __threadfence();
  const int before = atomicAdd(&arrived[row], 1);
  if (before != (fault == Fault::adds_too_early ? 0 : chunks - 1)) return;
  __threadfence();
  T total = 0;
  for (int c = 0; c < chunks; ++c) total += __ldcg(&parts[c]);
  y[row] = total;
  if (fault != Fault::counter_not_reset && fault != Fault::adds_too_early) arrived[row] = 0;
}

template <class T>
class HubPlan final : public FaultySpmv<T> {
 public:
  HubPlan(const SpmvProblem<T>& problem, Exec& exec, Fault fault) : FaultySpmv<T>(problem, exec, fault) {
    const Csr<T>& a = *problem.a;
    for (Index i = 0; i < a.rows; ++i) {
      chunks_ = std::max(chunks_, static_cast<unsigned>((a.row_nnz(i) + kChunk - 1) / kChunk));
    }
    arrived_ = DeviceArray<int>(static_cast<std::size_t>(a.rows));
    arrived_.zero(this->stream());
    partial_ = DeviceArray<T>(static_cast<std::size_t>(a.rows) * chunks_);
    partial_.fill_bytes(0xFF, this->stream());
  }

 protected:
  void product(const T* x, T* y) override {
    this->launch_warps(chunk_per_block<T>, {chunks_, static_cast<unsigned>(this->a().rows)},
                       this->matrix_.view(), x, y, arrived_.data(), partial_.data(), this->fault_);
    // The first to arrive cannot reset the counter: the next would be first again, and the last one right.
    if (this->has(Fault::adds_too_early)) arrived_.zero(this->stream());
  }

 private:
  unsigned chunks_ = 1;
  DeviceArray<int> arrived_;
  DeviceArray<T> partial_;
};

}  // namespace

Entry row_entry(Fault fault) {
  return entry_with<RowPlan>("mutant/rows", fault);
}
Entry in_run_entry(Fault fault) {
  return entry_with<InRunPlan>("mutant/in_run", fault);
}
Entry tile_entry(Fault fault) {
  return entry_with<TilePlan>("mutant/tiles", fault);
}
Entry hub_entry(Fault fault) {
  return entry_with<HubPlan>("mutant/hub", fault);
}

}  // namespace stages::cuda_mutants
