// Task: fill in where an element of a tile lies, so that no two lanes meet in a bank.
// Step: 04_cuda_shared
// Reference: 04_cuda_shared/shared_memory
// No bank conflict
//
// A is stored by rows. A warp reads 32 x 32 elements of it, a row of the tile at a time, side by side. Then
// lane l needs row l of the tile: at step k the lanes read one column. Shared memory has 32 banks, and the
// word number w lies in bank w % 32. Lanes that want different words of one bank get them one after another.
//
//   rows of 32 words               rows of 33 words
//   bank  0  1  2  3 ..            bank  0  1  2  3 ..
//         a0 a1 a2 a3                    a0 a1 a2 a3
//         b0 b1 b2 b3                    .. b0 b1 b2      (a row ends with a word that nobody uses)
//         c0 c1 c2 c3                    .. .. c0 c1
//   column 0: all in bank 0        column 0: banks 0, 1, 2, ...
//
// Hint: With rows of 32 words, in which bank is element (l, k)? How many lanes are in that bank at step k?
// Hint: Give each row one word more than it needs. Both the writing and the reading go through place().
// Hint: With kPitch = 33, place(row, column) is row * kPitch + column.

#include <set>
#include <vector>

#include "micro/gpu.hpp"

namespace stages {
namespace {

using micro::kWarp;
constexpr unsigned kRoom = 34 * 32;  ///< elements of shared memory

/// Where element (row, column) of the tile lies.
__device__ unsigned place(unsigned row, unsigned column) {
  // SOLUTION
  constexpr unsigned kPitch = kWarp + 1;
  return row * kPitch + column;
  // STUDENT
  // Your code. Until then all rows of the tile have the same place.
  static_cast<void>(row);
  return column;
  // END
}

/// y = A x with element (i, j) of A at a.data[i * a.ld + j]. A block is a warp, and has 32 rows.
template <class T>
__global__ void multiply(DenseView<const T> a, const T* x, T* y) {
  __shared__ T tile[kRoom];
  const unsigned lane = threadIdx.x, rows = static_cast<unsigned>(a.rows),
                 cols = static_cast<unsigned>(a.cols);
  const unsigned first_row = blockIdx.x * kWarp;
  T sum = 0;
  for (unsigned first = 0; first < cols; first += kWarp) {
    const unsigned columns = min(kWarp, cols - first);
    for (unsigned r = 0; r < min(kWarp, rows - first_row); ++r) {
      if (lane < columns) tile[place(r, lane)] = a.data[(first_row + r) * a.ld + first + lane];
    }
    __syncwarp();
    for (unsigned k = 0; k < columns; ++k) {
      if (first_row + lane < rows) sum += tile[place(lane, k)] * x[first + k];
    }
    __syncwarp();
  }
  if (first_row + lane < rows) y[first_row + lane] = sum;
}

/// Where all elements of a tile lie, row by row.
__global__ void note_places(unsigned* places) {
  for (unsigned k = 0; k < kWarp; ++k) places[threadIdx.x * kWarp + k] = place(threadIdx.x, k);
}

/// Throws Error where an element has no place in the tile, or two have the same.
void require_right(const std::vector<unsigned>& places) {
  std::set<unsigned> taken;
  for (unsigned k = 0; k < kWarp; ++k) {
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      const unsigned at = places[lane * kWarp + k];
      if (at >= kRoom) fail("place({}, {}) is {}, and the tile has {} elements", lane, k, at, kRoom);
      if (!taken.insert(at).second) fail("place({}, {}) is {}, where another element lies", lane, k, at);
    }
  }
}

template <class T>
class Mine final : public DenseSpmvPlan<T, Layout::row_major> {
 public:
  Mine(const SpmvProblem<T>& problem, Exec& exec) : DenseSpmvPlan<T, Layout::row_major>(problem, exec) {
    DeviceArray<unsigned> places(kWarp * kWarp);
    launch(note_places, {.grid = 1, .block = kWarp, .stream = this->stream()}, places.data());
    require_right(places.to_host());
  }

 protected:
  void multiply(const DenseView<const T>& a, const T* x, T* y, cudaStream_t stream) override {
    launch(stages::multiply<T>, {.grid = blocks_for(a.rows, kWarp), .block = kWarp, .stream = stream}, a, x,
           y);
  }
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<Mine>({.name = "micro/bank_conflict", .idea = "rows of a tile are padded"});
}

}  // namespace stages
