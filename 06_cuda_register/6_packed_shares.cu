// One launch for all products, with the matrix in a form of its own.
//
// The idea: what a thread keeps for all products, prepare can lay out as the warps will load it. In CSR the
// lanes of a warp read from up to 32 rows, each from its own place. Here the values of a warp lie side by side,
// step after step, 32 neighbouring numbers at a time, without row pointers: the ELLPACK of step 5, a warp at a
// time. `pack` lays it out, `Share` (resident.hpp) loads it. Columns have 16 bits, two in a register. Sums are
// added as in 5_vector_batches.cu.
//
// The load is done once for all products. It is worth most where copies of the matrix are many and each takes
// few batches. And 16-bit columns take fewer registers, so that more blocks fit onto an SM (notes.md).
//
// What remains: lanes that are served together read different batches in the same banks. As prepare lays out
// the non-zeros, it can choose their order: 7_bank_order.cu.
//
// Requires: 16-bit columns, rows of at most 32 x 64 non-zeros, batches of x that fit a block's shared memory,
// independent vectors. All rows are padded to one length.

#include "06_cuda_register/resident_plan.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages {

template <class T>
Packed<T> pack(const Csr<T>& matrix, int lanes, int steps, int banks, Order order) {
  if (steps < resident_steps(matrix, lanes)) fail("{} steps do not hold the longest row", steps);
  const CsrView<T> a = matrix.view();
  const Offset threads = Offset{blocks_for(Offset{a.rows} * lanes, 32)} * 32;
  Packed<T> out{.values = std::vector<T>(static_cast<std::size_t>(threads * steps)),
                .columns = std::vector<std::uint16_t>(static_cast<std::size_t>(threads * steps))};
  for (Offset first = 0; first < threads; first += banks) {  // the lanes that are served together
    std::vector<Positions> takes(static_cast<std::size_t>(banks));
    for (Offset thread = first; Positions & mine : takes) {
      const Offset row = thread / lanes, lane = thread++ % lanes;
      if (row >= a.rows) continue;
      for (Offset p = a.row_ptr[row] + lane; p < a.row_ptr[row + 1]; p += lanes) mine.push_back(p);
    }
    if (order != nullptr) order(takes, steps, a.col_idx);
    for (std::size_t s = 0; s < static_cast<std::size_t>(steps); ++s) {
      std::vector<bool> read(takes.size());
      std::size_t to = static_cast<std::size_t>(first / 32 * steps * 32 + first % 32) + s * 32;
      for (const Positions& mine : takes) {
        const Offset p = s < mine.size() ? mine[s] : -1;  // -1 - b: padding, the zero in bank b
        const Index column =
            p >= 0 ? a.col_idx[p] : a.cols + (static_cast<Index>(-1 - p) - a.cols % banks + banks) % banks;
        out.columns[to] = static_cast<std::uint16_t>(column);
        if (p >= 0) {
          out.values[to] = a.values[p];
          out.conflicts += read[static_cast<std::size_t>(column % banks)];
          read[static_cast<std::size_t>(column % banks)] = true;
        }
        ++to;
      }
    }
  }
  return out;
}

STAGES_FOR_VALUES(pack)

namespace {

template <class T, int kSteps>
__global__ void __launch_bounds__(kResidentBlock)
    packed_shares(ResidentView<T> a, const T* x, T* y, int products) {
  constexpr int kSize = Batch<T>::kSize;
  Batch<T>* const xs = dynamic_shared<Batch<T>>();  // and zeros behind them for the padding of short rows
  const Offset thread = Offset{blockIdx.x} * kResidentBlock + threadIdx.x;
  const Offset row = thread / a.lanes;
  const int lane = static_cast<int>(thread % a.lanes);
  Share<T, kSteps> share = {};
  share.load(a, thread);
  if (threadIdx.x < shared_banks(16)) xs[a.cols + static_cast<int>(threadIdx.x)] = {};

  const int copy = static_cast<int>(blockIdx.y), copies = static_cast<int>(gridDim.y);
  for (int first = copy * kSize; first < products; first += copies * kSize) {
    __syncthreads();  // the batches before have been read
    stage_batch<kResidentBlock>(xs, x, a.cols, first, products);
    __syncthreads();
    if (thread / 32 >= a.warps) continue;  // a warp behind the matrix
    Batch<T> sum = {};
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const Batch<T> batch = xs[share.column(s)];
#pragma unroll
      for (int v = 0; v < kSize; ++v) sum.of[v] += share.value[s] * batch.of[v];
    }
#pragma unroll
    for (int v = 0; v < kSize; ++v) {
      const T total = sum_over_lanes(sum.of[v], a.lanes);
      if (row < a.rows && lane == 0 && first + v < products) y[Offset{first + v} * a.rows + row] = total;
    }
  }
}

}  // namespace

void add_packed_shares(Registry& registry) {
  add_resident<nullptr>(
      registry,
      {.name = "06_cuda_register/packed_shares",
       .idea = "what the lanes of a warp keep lies side by side in memory, with 16-bit columns",
       .previous = "vector_batches"},
      []<class T, int kSteps>() { return packed_shares<T, kSteps>; });
}

}  // namespace stages
