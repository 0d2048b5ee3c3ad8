#pragma once
// How much shared memory a block of each form takes. What depends on rules is a function here, from which
// fitted_to_memory() makes rules that fit the device; what does not is asserted to fit any.

#include <cstddef>

#include "08_spgemm_multigpu/fast/rules.hpp"

namespace stages::spgemm {

/// Shared memory of a device, in bytes.
struct SharedMemory {
  std::size_t of_block = 0;  ///< that a block can have
  std::size_t of_sm = 0;
};

/// What the system takes of it for itself, for each block.
inline constexpr std::size_t kReservedBytes = 1024;

/// The rules, with sizes for such a device: every size that takes any is made to fit, and two blocks with
/// ranks, or with windows, share an SM. Those of an H100 or H200 (227 and 228 KiB) fit as they are, but for
/// windows of doubles, which are half as wide.
template <class T>
Rules fitted_to_memory(Rules rules, SharedMemory shared);

/// What every device from compute capability 7.5 on can give a block.
inline constexpr std::size_t kLeastSharedBytes = 64 * 1024;

/// More than the static arrays take of any kernel that has tables or windows in dynamic shared memory:
/// multiply_by_blocks (table_rows.cu) has most, 272 bytes. Beside the bitmap of count_rows (window_rows.cu) an
/// eighth of the memory is free.
inline constexpr std::size_t kStaticBytes = 1024;
/// The same for ranked_rows.cu, which has room for 512 products: 6,944 bytes for doubles.
inline constexpr std::size_t kRankedStaticBytes = 7 * 1024;

// The dynamic shared memory of a block, by the function of forms.hpp that launches it.

/// A bitmap of B's words begins with the word of a row's first column, so it may have another word at its end.
inline constexpr Index kSkippedBits = 32;
std::size_t count_narrow_bytes(Index columns);
template <class T>
std::size_t multiply_narrow_bytes(Index columns, Index most_results);

std::size_t count_in_warp_tables_bytes(Index slots);
std::size_t count_in_block_tables_bytes(Index slots);
template <class T>
std::size_t multiply_in_warp_tables_bytes(Index slots);
/// Of one table, which is what a block of multiply_in_block_tables has.
template <class T>
constexpr std::size_t block_table_bytes(Index slots) {
  return static_cast<std::size_t>(slots) * (sizeof(T) + sizeof(Index)) +
         static_cast<std::size_t>(slots) / 2 * sizeof(Index);
}

/// Of multiply_in_windows, in a block of so many warps.
template <class T>
constexpr std::size_t window_bytes(Index warps, Index columns) {
  return static_cast<std::size_t>(warps) * static_cast<std::size_t>(columns) / 32 *
         (32 * sizeof(T) + sizeof(unsigned));
}

}  // namespace stages::spgemm
