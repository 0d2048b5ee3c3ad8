// SpMV kernels with planted faults: a warp per row, tiles of x in shared memory, a row in several chunks.

#include <algorithm>

#include "common/matrix/convert.hpp"
#include "tests/cuda_mutants/faulty_plan.hpp"

namespace stages::cuda_mutants {
namespace {

template <class T>
__global__ void warp_per_row(CsrView<T> a, const T* x, T* y, Fault fault) {
  const unsigned row = blockIdx.x, lane = threadIdx.x;
  T sum = 0;
  for (Offset p = a.row_ptr[row] + lane; p < a.row_ptr[row + 1]; p += kWarp)
    sum += a.values[p] * x[a.col_idx[p]];
  const unsigned mask = fault == Fault::wrong_mask ? 0xffffu : kAllLanes;
  for (unsigned d = kWarp / 2; d > 0; d /= 2) sum += __shfl_down_sync(mask, sum, d);
  if (lane == 0) y[row] = sum;
}

template <class T>
class RowPlan final : public FaultySpmv<T> {
 public:
  RowPlan(const SpmvProblem<T>& problem, Exec& exec, Fault fault)
      : FaultySpmv<T>(problem, exec, fault), kept_(static_cast<std::size_t>(problem.a->rows)) {}

  void load(const SpmvOperands<T>& operands) override {
    DeviceSpmvPlan<T>::load(operands);
    runs_ = 0;
    if (this->has(Fault::copies_from_load)) {
      multiply(this->x_of(0), kept_.data(), this->stream());
      this->exec().synchronize();
    }
  }
  void reset() override {
    DeviceSpmvPlan<T>::reset();
    runs_ = 0;
  }

 protected:
  void product(const T* x, T* y) override {
    ++runs_;
    if (this->has(Fault::copies_from_load)) {
      STAGES_CUDA(cudaMemcpyAsync(y, kept_.data(), kept_.bytes(), cudaMemcpyDeviceToDevice, this->stream()));
    } else if (!this->has(Fault::replays) || runs_ == 1) {
      multiply(x, y, this->has(Fault::in_another_stream) ? other_ : this->stream());
    }
  }

 private:
  void multiply(const T* x, T* y, cudaStream_t stream) {
    const bool fails = this->has(Fault::failed_launch);
    try {
      launch(warp_per_row<T>,
             {.grid = blocks_for(this->a().rows, 1), .block = fails ? 4096 : kWarp, .stream = stream},
             this->matrix_.view(), x, y, this->fault_);
    } catch (const Error&) {
      if (!fails) throw;
    }
  }

  DeviceArray<T> kept_;
  Stream other_;
  int runs_ = 0;  // since the last load or reset
};

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
  T sum = 0;
  for (Index first = 0; first < a.cols; first += kTile) {
    if (fault != Fault::no_barrier_before_copy) __syncthreads();
    const Index k = first + static_cast<Index>(threadIdx.x % kWarp);
    if (copies && fault != Fault::no_barrier_before_copy) __nanosleep(2000);
    if (copies && k < a.cols) tile[k - first] = x[k];
    if (fault != Fault::no_barrier_after_copy) __syncthreads();
    if (!copies && fault == Fault::no_barrier_before_copy) __nanosleep(2000);
    for (Index j = first; has_row && j < min(a.cols, first + kTile); ++j)
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

constexpr unsigned kChunk = 64;

/// Block (c, r) takes chunk c of row r; `arrived` counts for each row, `partial` has `chunks` places for
/// each.
template <class T>
__global__ void chunk_per_block(CsrView<T> a, const T* x, T* y, int* arrived, T* partial, Fault fault) {
  const unsigned row = blockIdx.y, lane = threadIdx.x;
  const Offset begin = a.row_ptr[row], end = a.row_ptr[row + 1];
  const int chunks = static_cast<int>(max(Offset{1}, (end - begin + kChunk - 1) / kChunk));
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
  __threadfence();
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
    for (Index i = 0; i < a.rows; ++i)
      chunks_ = std::max(chunks_, static_cast<unsigned>((a.row_nnz(i) + kChunk - 1) / kChunk));
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

Entry row_entry(Fault fault) { return entry_with<RowPlan>("mutant/rows", fault); }
Entry tile_entry(Fault fault) { return entry_with<TilePlan>("mutant/tiles", fault); }
Entry hub_entry(Fault fault) { return entry_with<HubPlan>("mutant/hub", fault); }

}  // namespace stages::cuda_mutants
