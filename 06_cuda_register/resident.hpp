#pragma once
// A matrix cut up for registers: rungs 6 to 8 and the chains load it once and keep it while vectors go by.
//
// A row belongs to `lanes` neighbouring lanes of a warp; a lane keeps `steps` of the row's non-zeros, one
// (value, column) pair a step. In step s all lanes of a warp read x[column] from shared memory at once, and
// shared memory answers in one go only what lies in different banks: 32 lanes that read at random meet in
// some bank 3 to 4 times over. But the order in which a lane takes its non-zeros is free. So from rung 7 on
// prepare schedules them: in each step the lanes of a phase (the lanes whose reads the hardware serves
// together: 32 for elements of 4 bytes, 16 for 8, 8 for 16) take non-zeros of different banks, and where a
// lane has none left for a free bank it reads a zero behind x. The order is fixed in prepare, so the sums come
// out with the same bits each run.

#include <cstdint>
#include <vector>

#include "common/matrix/types.hpp"

namespace stages {

/// The order of a lane's non-zeros: along the row, or so that few reads of a phase meet in a bank.
enum class StepOrder { as_they_come, by_bank };

/// What a warp's lanes keep: element (warp, step, lane) is at [(warp * steps + step) * 32 + lane].
template <class T>
struct Resident {
  Index rows = 0;
  Index cols = 0;
  int lanes = 1;                       ///< lanes per row: a power of two up to 32
  int steps = 0;                       ///< non-zeros per lane, padding included
  int warps = 0;                       ///< warps that hold the matrix: 32 / lanes rows each
  std::vector<T> values;               ///< 0 in padding
  std::vector<std::uint16_t> columns;  ///< cols .. cols + banks - 1 in padding: zeros stand there behind x
  Offset conflicts =
      0;  ///< reads that meet another of their phase in its bank: what the order does not avoid
};

/// Banks of shared memory as elements of `element_bytes` see them: 128 bytes are served at once.
constexpr int shared_banks(int element_bytes) { return 128 / element_bytes; }

/// The most non-zeros that a lane gets when `lanes` lanes share each row: the least number of steps.
template <class T>
Index resident_steps(const Csr<T>& a, int lanes);

/// Cuts up `a`. `element_bytes`: size of what lies at x[column] in shared memory. Throws Error if `steps` is
/// less than resident_steps, or there are more than kMostResidentColumns columns.
template <class T>
Resident<T> make_resident(const Csr<T>& a, int lanes, int steps, int element_bytes, StepOrder order);

/// Columns are kept in 16 bits, with room for the zeros behind x.
inline constexpr Index kMostResidentColumns = 65536 - 32;

}  // namespace stages
