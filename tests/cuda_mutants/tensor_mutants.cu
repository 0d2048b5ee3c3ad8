// Tiles on tensor cores, in floats of two TF32 parts, with planted faults.

#include <utility>

#include "07_spmm/tiles.hpp"
#include "common/gpu/tensor.hpp"
#include "tests/cuda_mutants/faulty_plan.hpp"

namespace stages::cuda_mutants {
namespace {

using spmm::DeviceTiles;
using spmm::TiledMatrix;

constexpr Index kWide = 8;  ///< columns of C that a warp does

struct Operands {
  DenseView<const float> b;
  DenseView<float> c;
  float alpha = 1, beta = 0;
};

__device__ void store(const Operands& m, Index row, Index column, float sum) {
  if (row < 0 || column >= m.c.cols) return;
  float& element = m.c.data[row * m.c.ld + column];
  element = m.beta == 0 ? m.alpha * sum : m.alpha * sum + m.beta * element;
}

/// A warp for 16 rows and 8 columns of C.
__global__ void multiply_band(TiledMatrix<float> a, Operands m, Fault fault) {
  const Index g = static_cast<Index>(threadIdx.x / 4), k = static_cast<Index>(threadIdx.x % 4);
  const Index left = static_cast<Index>(blockIdx.y) * kWide;
  const Offset last = a.first[blockIdx.x + 1] - (fault == Fault::last_tile_lost ? 1 : 0);
  float d[4] = {};
  for (Offset tile = a.first[blockIdx.x]; tile < last; ++tile) {
    float big[4], small[4], b_big[2], b_small[2];
    for (unsigned i = 0; i < 4; ++i) {
      const float value = a.values[(tile * kWarp + threadIdx.x) * 4 + i];
      big[i] = to_tf32(value), small[i] = value - big[i];
    }
    for (Index i = 0; i < 2; ++i) {
      const Index row = a.columns[tile * spmm::kTileColumns + k + 4 * i];
      const float value = left + g < m.b.cols ? m.b.data[row * m.b.ld + left + g] : 0.0f;
      b_big[i] = to_tf32(value), b_small[i] = value - b_big[i];
    }
    if (fault == Fault::swapped_fragment) std::swap(big[1], big[2]);
    if (fault != Fault::big_parts_alone) {
      multiply_tiles(d, small, b_big);
      if (fault != Fault::small_b_lost) multiply_tiles(d, big, b_small);
    }
    multiply_tiles(d, big, b_big);
  }
  const Index* const rows = a.rows + Offset{blockIdx.x} * spmm::kTileRows;
  for (Index i = 0; i < 4; ++i) store(m, rows[g + i / 2 * 8], left + 2 * k + i % 2, d[i]);
}

__global__ void multiply_short_row(TiledMatrix<float> a, Operands m) {
  const Index row = a.short_rows[blockIdx.x], column = static_cast<Index>(threadIdx.x);
  for (Index j = column; j < m.c.cols; j += Index{kWarp}) {
    float sum = 0;
    for (Offset e = a.csr.row_ptr[row]; e < a.csr.row_ptr[row + 1]; ++e)
      sum += a.csr.values[e] * m.b.data[a.csr.col_idx[e] * m.b.ld + j];
    store(m, row, j, sum);
  }
}

template <class T>
class TensorPlan final : public FaultySpmm<T> {
 public:
  TensorPlan(const SpmmProblem<T>& problem, Exec& exec, Fault fault)
      : FaultySpmm<T>(problem, exec, fault), tiles_(*problem.a) {}

  void run() override {
    if constexpr (std::is_same_v<T, float>) {
      const Operands m{this->b(), this->c(), this->problem().alpha, this->problem().beta};
      const TiledMatrix<float> a = tiles_.view();
      const Index columns = m.c.cols + (this->has(Fault::last_columns_lost) ? 0 : kWide - 1);
      this->launch_warps(multiply_band, {blocks_for(a.bands, 1), static_cast<unsigned>(columns / kWide)}, a,
                         m, this->fault_);
      if (!this->has(Fault::short_rows_lost))
        this->launch_warps(multiply_short_row, blocks_for(a.n_short, 1), a, m);
    }
  }

 private:
  DeviceTiles<T> tiles_;
};

}  // namespace

Entry tensor_entry(Fault fault) {
  return entry_with<TensorPlan>("mutant/tensor", fault);
}

}  // namespace stages::cuda_mutants
