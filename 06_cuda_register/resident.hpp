#pragma once
// A matrix cut up for registers: rungs 6 and 7 and the chains load it once and keep it while vectors go by.
//
// A row belongs to `lanes` neighbouring lanes of a warp; a lane keeps `steps` of the row's non-zeros, one
// (value, column) pair a step. What lane l of warp w takes in step s lies at [(w * steps + s) * 32 + l].

#include <cstdint>
#include <vector>

#include "06_cuda_register/lanes.hpp"
#include "common/gpu/plans.hpp"

namespace stages {

/// Lanes that shared memory serves together, where each reads `element_bytes`: 128 bytes at once. It has as
/// many places for such elements ("banks" from here on): the place of x[column] is column % banks.
constexpr int shared_banks(int element_bytes) { return 128 / element_bytes; }

/// Columns are kept in 16 bits, with room for the zeros behind x.
inline constexpr Index kMostResidentColumns = 65536 - 32;

/// What a lane takes, step after step: positions in the matrix, or -1 - b for the zero behind x in bank b.
using Positions = std::vector<Offset>;

/// Changes what the lanes served together take, in at most `steps` steps; nullptr: along the row, as it comes.
using Order = void (*)(std::vector<Positions>& lanes, int steps, const Index* columns);

/// So that few reads of x meet in a bank: 7_bank_order.cu.
void by_bank(std::vector<Positions>& lanes, int steps, const Index* columns);

/// Steps with an eighth to spare, so that by_bank has room to avoid conflicts.
constexpr int with_spare(int steps) { return steps + steps / 8; }

/// The arrays that lanes load, in their order.
template <class T>
struct Packed {
  std::vector<T> values;               ///< 0 in padding
  std::vector<std::uint16_t> columns;  ///< cols .. cols + banks - 1 in padding: zeros stand there behind x
  Offset conflicts = 0;                ///< non-zeros that meet another in its bank
};

/// Packs `a`: 6_packed_shares.cu. Throws Error if `steps` is less than resident_steps.
template <class T>
Packed<T> pack(const Csr<T>& a, int lanes, int steps, int banks, Order order);

/// A packed matrix in device memory, as kernels take it.
template <class T>
struct ResidentView {
  Index rows, cols;
  int lanes;  ///< lanes per row
  int warps;  ///< that hold the matrix: 32 / lanes rows each
  const T* values;
  const std::uint16_t* columns;
};

/// One lane's non-zeros. The loops over kSteps are unrolled, so that every element has a register of its own:
/// an array that is indexed by a variable would lie in local memory, which is device memory.
template <class T, int kSteps>
struct Share {
  T value[kSteps];
  unsigned column_pair[kSteps / 2];  ///< two 16-bit columns each

  /// What thread number `thread` of the grid keeps; nothing in a warp behind the matrix.
  __device__ void load(const ResidentView<T>& a, Offset thread) {
    if (thread / 32 >= a.warps) return;
    const Offset base = thread / 32 * kSteps * 32 + thread % 32;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) value[s] = a.values[base + s * 32];
#pragma unroll
    for (int s = 0; s < kSteps; s += 2) {
      column_pair[s / 2] = a.columns[base + s * 32] | static_cast<unsigned>(a.columns[base + (s + 1) * 32])
                                                          << 16;
    }
  }
  __device__ int column(int s) const {
    return static_cast<int>(s % 2 == 0 ? column_pair[s / 2] & 0xffffU : column_pair[s / 2] >> 16);
  }
};

/// The matrix of a plan, on the device. `element_bytes`: of what lies at x[column] in shared memory.
template <class T>
class ResidentMatrix {
 public:
  ResidentMatrix(const Csr<T>& a, int lanes, int steps, int element_bytes, Order order)
      : ResidentMatrix(a, lanes, steps, pack(a, lanes, steps, shared_banks(element_bytes), order)) {}

  const ResidentView<T>& view() const { return view_; }
  int steps() const { return steps_; }
  Offset conflicts() const { return conflicts_; }

 private:
  ResidentMatrix(const Csr<T>& a, int lanes, int steps, const Packed<T>& packed)
      : steps_(steps),
        conflicts_(packed.conflicts),
        values_(std::span<const T>(packed.values)),
        columns_(std::span<const std::uint16_t>(packed.columns)),
        view_{a.rows,         a.cols,         lanes, static_cast<int>(blocks_for(Offset{a.rows} * lanes, 32)),
              values_.data(), columns_.data()} {}

  int steps_;
  Offset conflicts_;
  DeviceArray<T> values_;
  DeviceArray<std::uint16_t> columns_;
  ResidentView<T> view_;
};

}  // namespace stages
