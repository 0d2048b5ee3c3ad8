// SpMM with the form that fits the matrix, chosen by rules in prepare: the first that holds.
//
//   dense_tiles   asks for a row of B once for 16 rows of A, and pays with the zeros that fill its tiles up.
//                 For floats, where the device has TF32, and B has 8 columns or more; where at most an eighth
//                 of the rows are too short for tiles, the mean row fills four, and none is longer than eight
//                 times the mean one; where there are blocks enough for the tiles; and where non-zeros take
//                 0.4 of the places in tiles or more (0.25 with 32 columns of B, 0.18 with 64; in both 0.35
//                 for a mesh, of which L1 has most rows of B already: A is local and even, and the mean row
//                 has fewer than 128). With fewer than 2,000 non-zeros for each SM: 0.35, and only if B has
//                 more than a line
//   whole_rows    has nothing to look for between rows, and no second kernel. Where rows of B are aligned and
//                 longer than a vector, and no row of A is so long that its block would be done last
//                 (1,280 and 1/256 of all non-zeros). Not if B has more than a line, the mean row 256 non-zeros
//                 or more, and each SM more than 4,000: bands of B are for them.
//                 Beyond that it depends on the columns of B and on the order of whole_rows.hpp. As they lie:
//
//                   half a line   or less: always
//                   up to a line  a mean row of 16 non-zeros or more
//                   more          of 20 or more; of 44 or more if A is banded
//
//                 By length, where there are at most 48,000 non-zeros for each SM, and B and C together fit
//                 into three quarters of L2, or with half a line of B into all of it:
//
//                   half a line   or less: a mean row of 3 non-zeros or more
//                   up to a line  of 6 or more
//                   more          of 16 or more
//                   any           if B and C take no more than a sixth of L2; but with more than a line not
//                                 even rows of fewer than 6 in the mean
//
//                 notes.md says what was tried beyond these limits
//   balanced      otherwise
//
// How full tiles are, and how often rows of B are asked for, is counted on samples (tiles.hpp,
// granularity.hpp).
//
// Input: any CSR matrix. Cost: that of the form taken, which the results name.

#include "07_spmm/fast/adaptive.hpp"

#include <cmath>

#include "07_spmm/fast/granularity.hpp"
#include "07_spmm/fast/packed_b.hpp"
#include "07_spmm/fast/whole_rows.hpp"
#include "07_spmm/tile_plan.hpp"
#include "common/gpu/exec.hpp"
#include "common/gpu/rules.hpp"
#include "common/gpu/tensor.hpp"

namespace stages::spmm {
namespace {

constexpr Index kFewColumns = 8;
constexpr double kMostShortRows = 0.125;  ///< of all rows: they are multiplied one by one, without tiles
constexpr Index kFourTiles = 4 * kTileColumns;
constexpr double kTilesOfBlock = 8;        ///< of a band, for each block of the grid that is there
constexpr double kEvenForTiles = 8;        ///< times the mean row that the longest is at most
constexpr Offset kFewOfSm = 2000;          ///< non-zeros for each SM: few for tiles
constexpr double kMostOfL2 = 0.75;         ///< that B and C may take
constexpr double kSmallPart = 1.0 / 6;     ///< of L2
constexpr Offset kMostByLength = 48'000;   ///< non-zeros for each SM
constexpr Index kVeryLongRows = 256;       ///< non-zeros of a mean row
constexpr Offset kMostOfVeryLong = 4'000;  ///< non-zeros for each SM, of such rows with more than a line of B
constexpr Offset kLongest = 1280, kPartOfLongest = 256;

/// How full tiles must be; `few`: there are few non-zeros.
double least_filled(const SpmmShape& shape, bool few) {
  if (few) return 0.35;
  if (shape.n_cols < 32) return 0.4;
  if (is_mesh(shape)) return 0.35;
  return shape.n_cols < 64 ? 0.25 : 0.18;
}

/// Whether a form is taken, and what decided.
struct Verdict {
  bool taken = false;
  std::string why = {};
};

template <class T>
Verdict takes_dense_tiles(const SpmmShape& shape, const std::function<TileSample()>& sampled_tiles) {
  const Index n_cols = shape.n_cols;
  if (sizeof(T) > sizeof(float) || !has_tf32() || n_cols < kFewColumns) return {};
  if (!has_mean_row(shape, kFourTiles) || !is_even(shape, kEvenForTiles)) return {};
  const bool few = shape.nnz < kFewOfSm * device_facts().sms;
  if (few && n_cols * Offset{sizeof(T)} <= kLineBytes) return {};
  const TileSample sample = sampled_tiles();
  const double least = least_filled(shape, few);
  if (sample.filled < least) return {};
  const double bands = std::ceil(shape.rows / double{kTileRows}),
               strips = std::ceil(n_cols / double{kTileStrip});
  const double tiles = static_cast<double>(shape.nnz) / (sample.filled * kTileRows * kTileColumns);
  return {sample.short_rows <= kMostShortRows && tiles / bands <= kTilesOfBlock * bands * strips,
          fmt::format("non-zeros fill {:.0f} % of their tiles, and {:.0f} % are enough", 100 * sample.filled,
                      100 * least)};
}

/// Whether whole rows as they lie are fast; `bytes`: of a row of B.
bool are_fast_as_they_lie(const SpmmShape& shape, Offset bytes) {
  if (2 * bytes <= kLineBytes) return true;
  if (bytes <= kLineBytes) return has_mean_row(shape, 16);
  return has_mean_row(shape, is_banded(shape) ? 44 : 20);
}

/// The same by length.
bool are_fast_by_length(const SpmmShape& shape, Offset bytes) {
  const DeviceFacts& device = device_facts();
  if (shape.nnz > kMostByLength * device.sms) return false;
  const double of_l2 = static_cast<double>(bytes) * (static_cast<double>(shape.rows) + shape.rows_of_b) /
                       static_cast<double>(device.l2_bytes);
  const bool short_even = !has_mean_row(shape, 6) && is_even(shape);
  if (of_l2 <= kSmallPart && !(short_even && bytes > kLineBytes)) return true;
  if (2 * bytes <= kLineBytes) return of_l2 <= 1 && has_mean_row(shape, 3);
  return of_l2 <= kMostOfL2 && has_mean_row(shape, bytes <= kLineBytes ? 6 : 16);
}

template <class T>
Verdict takes_whole_rows(const SpmmShape& shape) {
  const Offset bytes = shape.n_cols * Offset{sizeof(T)};
  if (shape.n_cols <= kVectorLength<T>) return {false, "rows of B are no longer than a vector"};
  if (!rows_are_aligned<T>(shape.ld_of_b)) return {false, "rows of B are not aligned to 16 bytes"};
  if (const Offset most = kLongest + shape.nnz / kPartOfLongest; shape.longest > most)
    return {false, fmt::format("the longest row has {} non-zeros, more than {}, and would end last",
                               shape.longest, most)};
  const bool many_very_long =
      has_mean_row(shape, kVeryLongRows) && shape.nnz > kMostOfVeryLong * device_facts().sms;
  if (bytes > kLineBytes && many_very_long) return {false, "rows are very long, and bands of B are for them"};
  const bool in_order = stay_in_order(shape, bytes);
  const bool fast = in_order ? are_fast_as_they_lie(shape, bytes) : are_fast_by_length(shape, bytes);
  const double mean = static_cast<double>(shape.nnz) / shape.rows;
  const char* const slow = in_order ? "too short" : "too short, or too many for L2";
  return {fast, fmt::format("no row is too long; whole rows {}, of {:.4g} non-zeros in the mean, are {}",
                            in_order ? "as they lie" : "by length", mean, fast ? "fast" : slow)};
}

}  // namespace

template <class T>
Decision form_for(const SpmmShape& shape, const std::function<TileSample()>& sampled_tiles) {
  if (shape.nnz == 0) return {SpmmForm::balanced, "A has no non-zeros"};
  if (const Verdict tiles = takes_dense_tiles<T>(shape, sampled_tiles); tiles.taken)
    return {SpmmForm::dense_tiles, tiles.why};
  const Verdict rows = takes_whole_rows<T>(shape);
  return {rows.taken ? SpmmForm::whole_rows : SpmmForm::balanced, rows.why};
}

void add_adaptive(Registry& registry, const std::string& name) {
  add_choice<SpmmProblem>(
      registry, {.name = name, .idea = "dense_tiles, whole_rows or balanced, by stated rules"}, "balanced",
      []<class T>(const SpmmProblem<T>& problem) -> Choice {
        static constexpr const char* kNames[] = {"balanced", "whole_rows",
                                                 "dense_tiles"};  // as SpmmForm has them
        const Decision taken = form_for<T>(shape_of(problem), [&] { return sample_tiles(*problem.a); });
        return {kNames[static_cast<int>(taken.form)], taken.why};
      });
}

template Decision form_for<float>(const SpmmShape&, const std::function<TileSample()>&);
template Decision form_for<double>(const SpmmShape&, const std::function<TileSample()>&);

}  // namespace stages::spmm
