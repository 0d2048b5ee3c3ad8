#pragma once
// Whether rows are dealt as an exercise wants them.

#include <algorithm>
#include <span>
#include <string_view>

#include "common/matrix/error.hpp"
#include "common/matrix/types.hpp"

namespace stages::micro {

/// Share s is the rows firsts[s] .. firsts[s + 1] - 1, and before[i] is what the rows before row i weigh.
/// Throws Error unless the shares are all rows, and none of them weighs more than an equal part, the heaviest
/// row and `spare` together. `share` and `weights` are the words for both.
inline void require_balance(std::span<const Index> firsts, std::span<const Offset> before, Offset spare,
                            std::string_view share, std::string_view weights) {
  const std::size_t shares = firsts.size() - 1, rows = before.size() - 1;
  Offset heaviest = 0;
  for (std::size_t i = 0; i < rows; ++i) heaviest = std::max(heaviest, before[i + 1] - before[i]);
  const Offset most = before.back() / static_cast<Offset>(shares) + heaviest + spare;
  if (firsts.front() != 0 || firsts.back() != static_cast<Index>(rows))
    fail("the shares are rows {} to {} of 0 to {}", firsts.front(), firsts.back(), rows);
  for (std::size_t s = 0; s < shares; ++s) {
    const Index begin = firsts[s], end = firsts[s + 1];
    if (begin > end) fail("{} {} begins at row {}, and {} {} at row {}", share, s, begin, share, s + 1, end);
    const Offset mine = before[static_cast<std::size_t>(end)] - before[static_cast<std::size_t>(begin)];
    if (mine > most)
      fail("{} {} has {} of {} {}; an equal part and the heaviest row are {}", share, s, mine, before.back(),
           weights, most);
  }
}

}  // namespace stages::micro
