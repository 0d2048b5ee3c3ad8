#include "08_spgemm_multigpu/fast/shared_bytes.hpp"
#include "common/matrix/instantiate.hpp"

#include <algorithm>

namespace stages::spgemm {
namespace {

/// Halves a size, in whole units, until the bytes that a block takes for it are no more than `room`.
template <class Bytes>
void fit(Index& size, Index unit, std::size_t room, Bytes bytes) {
  while (bytes(size) > room && size > unit) size = std::max(unit, size / 2 / unit * unit);
}

}  // namespace

template <class T>
Rules fitted_to_memory(Rules rules, SharedMemory shared) {
  const std::size_t of_two = shared.of_sm / 2 - kReservedBytes;  // for each of two blocks on an SM
  const std::size_t room = shared.of_block - kStaticBytes, room_of_two = of_two - kStaticBytes;
  rules.value_bytes = Index{sizeof(T)};
  fit(rules.count_warp_slots, 2, room, count_in_warp_tables_bytes);
  fit(rules.count_block_slots, 2, room, count_in_block_tables_bytes);
  fit(rules.count_narrow_columns, 32, room,
      [](Index columns) { return count_narrow_bytes(columns + kSkippedBits); });
  for (Index* const slots : {&rules.warp_small_slots, &rules.warp_slots})
    fit(*slots, 2, room, multiply_in_warp_tables_bytes<T>);
  for (Index* const slots : {&rules.block_slots, &rules.large_slots})
    fit(*slots, 2, room, block_table_bytes<T>);
  // What of the two takes more of a row in a narrow range, results or columns, is halved.
  Index &columns_of_warp = rules.narrow_columns, &results = rules.narrow_results;
  while (multiply_narrow_bytes<T>(columns_of_warp, results) > room) {
    const bool more_columns =
        multiply_narrow_bytes<T>(columns_of_warp, 0) > multiply_narrow_bytes<T>(0, results);
    more_columns ? columns_of_warp = columns_of_warp / 2 / 32 * 32 : results /= 2;
  }
  fit(rules.narrow_long_results, 1, room,
      [&](Index n) { return multiply_narrow_bytes<T>(columns_of_warp, n); });
  rules.ranked_bytes = std::min(rules.ranked_bytes, static_cast<Index>(of_two - kRankedStaticBytes));
  rules.ranked_small_bytes = std::min(rules.ranked_small_bytes, rules.ranked_bytes);
  rules.window_columns = std::max<Index>(32, rules.window_columns * 4 / Index{sizeof(T)} / 32 * 32);
  const auto windows_of = [](Index warps) { return [warps](Index n) { return window_bytes<T>(warps, n); }; };
  fit(rules.window_columns, 32, room_of_two, windows_of(kWindowWarps));
  fit(rules.window_small_columns, 32, room_of_two, windows_of(kSmallWindowWarps));
  // One pass is one part at most: a row that was counted in more would lose the others (stretch_of()).
  rules.window_small_columns =
      std::min(rules.window_small_columns, kWindowWarps / kSmallWindowWarps * rules.window_columns);
  const auto columns =
      static_cast<Index>(shared.of_block / 4 * 4 * 8 * 7 / 8 / 32 * 32);  // an eighth is left free
  rules.bitmap_columns = std::min(rules.bitmap_columns, columns);
  return rules;
}

STAGES_FOR_VALUES(fitted_to_memory)

}  // namespace stages::spgemm
