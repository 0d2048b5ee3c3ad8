// The rules of granularity.hpp.

#include "07_spmm/fast/granularity.hpp"

#include <algorithm>

#include "07_spmm/fast/kernels.hpp"
#include "07_spmm/fast/packed_b.hpp"
#include "common/gpu/facts.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages::spmm {
namespace {

constexpr Index kShortRows = 8;    ///< non-zeros of a mean row
constexpr Index kTwoBatches = 16;  ///< of a mean row: then most batches of 8 non-zeros end no row
constexpr Index kLongRows = 128;   ///< non-zeros of a mean row
constexpr Index kBandsOfLongRows = 20;
constexpr int kLongSharesOfSm = 80;  ///< shares of long rows for each SM
constexpr double kLeastSaved = 7;    ///< lines for each line of B, with which a copy of B pays
constexpr Offset kSampledWindows = 32;
constexpr double kLocalFresh = 0.5;     ///< of kWindow non-zeros; if no more ask for a row first, A is local
constexpr double kBandedFresh = 0.075;  ///< the same of banded ones
constexpr Offset kManyOfSm = 24'000;    ///< non-zeros for each SM, with which all of them have enough to do

/// The columns of a strip.
template <class T>
Index strip_for(Index n_cols) {
  constexpr Index kWidest = 256 / sizeof(T);
  return n_cols <= 8 ? 8 : n_cols <= 16 ? 16 : n_cols <= 32 ? 32 : kWidest;
}

/// Whether a strip of a row of B is shorter than a line.
template <class T>
bool is_narrow(Index strip) {
  return strip * Index{sizeof(T)} < kLineBytes;
}

/// The lanes of a strip; `vectors`: they take vectors of B.
template <class T>
Index lanes_for(Index strip, bool vectors) {
  if (!vectors) return std::min(strip, Index{kWarp});
  return std::max(Index{4}, strip * Index{sizeof(T)} / kVectorBytes);
}

/// Whether lanes take a column each of a narrow strip although they could take vectors.
template <class T>
bool takes_a_column_each(Index strip, const SpmmShape& shape) {
  return is_narrow<T>(strip) && has_many(shape) && !is_local(shape) &&
         (2 * strip * Index{sizeof(T)} < kLineBytes || has_mean_row(shape, kShortRows));
}

/// The loads of a lane.
template <class T>
Index loads_for(const Granularity& g, const SpmmShape& shape) {
  if (g.lanes == 4) return 4;
  const bool many_on_8 = g.lanes == 8 && has_many(shape);
  return is_narrow<T>(g.strip) || has_mean_row(shape, kTwoBatches) || many_on_8 ? 8 : 4;
}

/// So many non-zeros, as those of a share.
Index as_share(double nonzeros, double least, double most) {
  return (static_cast<Index>(std::clamp(nonzeros, least, most)) + 7) / 8 * 8;
}

/// The non-zeros of a share; `groups`, `blocks`: what an SM has room for.
Index share_for(const SpmmShape& shape, const Granularity& g, const Residency& residency) {
  const DeviceFacts& device = device_facts();
  const double blocks = std::min<double>(residency.blocks, device.max_threads_per_sm / g.block);
  const double resident = static_cast<double>(device.sms) * residency.groups * blocks;
  const double even = static_cast<double>(shape.nnz) / (2 * resident);
  const Index strips = (shape.n_cols + g.strip - 1) / g.strip;
  return as_share(even, even * strips < 6 ? 16 : 32, g.lanes == 4 ? 32 : g.lanes == 8 ? 128 : 256);
}

/// Those of a share of long rows; `lines`: a strip is more than a line of B.
Index share_of_long_rows(const SpmmShape& shape, bool lines) {
  return as_share(static_cast<double>(shape.nnz) / (device_facts().sms * kLongSharesOfSm), lines ? 64 : 16,
                  128);
}

/// How far a boundary may move. Where rows are even and a share holds the mean one, no row is cut: where it is
/// longer, that would leave most shares empty, and with bands all shares would begin in the first.
Index slack_for(Index share, Index bands, const SpmmShape& shape) {
  const Index slack = usual_slack(share);
  if (bands > 1 || !is_even(shape) || has_mean_row(shape, share + 1)) return slack;
  return std::max(slack, static_cast<Index>(shape.longest));
}

/// Whether a copy of B pays.
template <class T>
bool packing_pays(const SpmmShape& shape, Index strip) {
  if (!can_pack<T>(strip)) return false;
  constexpr Index kLine = kLineBytes / sizeof(T);
  const Index at_once = rows_are_aligned<T>(shape.ld_of_b) ? strip : Index{kWarp};
  const double saved = lines_as_it_lies(shape.n_cols, shape.ld_of_b, at_once, kLine) -
                       lines_packed(pieces_of<T>(shape.n_cols, strip), kLine);
  const double lines_of_b = static_cast<double>(shape.rows_of_b) * shape.n_cols / kLine;
  return static_cast<double>(shape.nnz) * saved >= kLeastSaved * lines_of_b;
}

/// The granularity for a few columns.
template <class T>
Granularity a_lane_a_nonzero(Granularity g, const SpmmShape& shape) {
  g.strip = kVectorLength<T>;
  g.lanes = 1;
  g.loads = kThinAhead;
  g.block = kSmallBlock;
  if (g.bands == 0) g.bands = 1;
  if (g.share == 0) g.share = share_for(shape, g, kResidencyOfFewColumns);
  if (g.slack == 0) g.slack = slack_for(g.share, g.bands, shape);
  return g;
}

/// Whether strips are to be wide: one takes all columns, or there is more to do for rows than for non-zeros.
template <class T>
bool takes_wide_strips(const SpmmShape& shape) {
  if (sizeof(T) > 4 || !rows_are_aligned<T>(shape.ld_of_b) || shape.n_cols <= kWideStrip * 3 / 4)
    return false;
  return shape.n_cols < kWideStrip || shape.nnz <= shape.rows;
}

/// Whether rows are so long that a share passes over a small part of B.
bool has_long_rows(const SpmmShape& shape, bool lines) {
  return has_mean_row(shape, std::max(kLongRows, 2 * share_of_long_rows(shape, lines)));
}

/// The granularity for such rows.
template <class T>
Granularity in_bands(Granularity g, const SpmmShape& shape) {
  constexpr Index kLine = kLineBytes / sizeof(T);
  if (g.share == 0) g.share = share_of_long_rows(shape, g.strip > kLine);
  if (g.bands == 0) g.bands = kBandsOfLongRows;
  g.strip = std::max(g.strip, kLine);
  return g;
}

/// The granularity where neighbouring rows ask for the same rows of B, and there are many: no row is cut but
/// long ones, and shares are so short that what runs on an SM at a time asks for rows that its L1 holds.
template <class T>
Granularity among_neighbours(Granularity g, const SpmmShape& shape) {
  const bool long_shares = is_banded(shape) && has_mean_row(shape, kTwoBatches);
  const Index share = is_narrow<T>(g.strip) ? 16 : long_shares ? 128 : 64;
  g.share = g.slack = has_mean_row(shape, share + 1) ? 256 : share;
  return g;
}

/// Of so many columns of a B that is not aligned, those beyond the last that a warp takes a column a lane, if
/// they are few enough for a lane a non-zero.
template <class T>
Index thin_rest(Index n_cols) {
  const Index over = n_cols % Index{kWarp};
  return n_cols > Index{kWarp} && over <= kVectorLength<T> ? over : 0;
}

}  // namespace

bool is_local(const SpmmShape& shape) { return shape.fresh <= kLocalFresh; }

bool is_banded(const SpmmShape& shape) { return shape.fresh <= kBandedFresh; }

bool is_mesh(const SpmmShape& shape) {
  return is_local(shape) && is_even(shape) && !has_mean_row(shape, kLongRows);
}

bool has_many(const SpmmShape& shape) { return shape.nnz >= kManyOfSm * device_facts().sms; }

bool has_mean_row(const SpmmShape& shape, Index nonzeros) {
  return shape.nnz >= Offset{nonzeros} * shape.rows;
}

bool is_even(const SpmmShape& shape, double times) {
  return static_cast<double>(shape.longest) * shape.rows <= times * static_cast<double>(shape.nnz);
}

template <class T>
double sampled_fresh_share(const Csr<T>& a) {
  const Offset windows = std::max(Offset{1}, a.nnz() / kWindow), sampled = std::min(windows, kSampledWindows);
  Offset seen = 0, fresh = 0;
  std::vector<Index> columns;
  for (Offset k = 0; k < sampled; ++k) {
    const Offset begin = k * windows / sampled * kWindow, end = std::min(a.nnz(), begin + kWindow);
    columns.assign(a.col_idx.begin() + begin, a.col_idx.begin() + end);
    std::sort(columns.begin(), columns.end());
    fresh += std::unique(columns.begin(), columns.end()) - columns.begin();
    seen += end - begin;
  }
  return seen > 0 ? static_cast<double>(fresh) / static_cast<double>(seen) : 1;
}

template <class T>
SpmmShape shape_of(const SpmmProblem<T>& problem) {
  const Csr<T>& a = *problem.a;
  return {.nnz = a.nnz(),
          .rows = a.rows,
          .rows_of_b = a.cols,
          .n_cols = problem.n_cols,
          .ld_of_b = ld_of_b(problem),
          .longest = a.longest_row(),
          .fresh = sampled_fresh_share(a)};
}

template <class T>
bool takes_vectors(const Granularity& g, const SpmmShape& shape) {
  return g.packing == Packing::always || rows_are_aligned<T>(shape.ld_of_b);
}

template <class T>
Granularity resolve(Granularity g, const SpmmShape& shape) {
  const bool by_rule = g.strip == 0 && g.lanes == 0 && g.loads == 0;
  if (g.lanes == 1 && shape.n_cols > kVectorLength<T>)
    fail("balanced: a lane a non-zero was asked for, but a lane has no more than {} columns, not {}",
         kVectorLength<T>, shape.n_cols);
  if (g.strip == 0) g.strip = strip_for<T>(shape.n_cols);
  if (g.packing == Packing::by_rule)
    g.packing = by_rule && packing_pays<T>(shape, g.strip) ? Packing::always : Packing::never;
  if (by_rule && g.packing == Packing::always && can_pack<T>(g.strip)) {
    g.strip = pieces_of<T>(shape.n_cols, g.strip).front().strip;  // 33 columns: 32 and 1
  }
  if (g.lanes == 1 || (by_rule && g.packing == Packing::never && shape.n_cols <= kVectorLength<T>))
    return a_lane_a_nonzero<T>(g, shape);
  const bool vectors = takes_vectors<T>(g, shape);
  if (by_rule && vectors && has_long_rows(shape, g.strip * Index{sizeof(T)} > kLineBytes)) {
    g = in_bands<T>(g, shape);
  } else if (by_rule && g.packing == Packing::never && takes_wide_strips<T>(shape)) {
    g.strip = kWideStrip;
    g.lanes = 16;
    g.loads = 8;
  }
  if (g.block == 0) g.block = kSmallBlock;
  if (g.lanes == 0 && by_rule && takes_a_column_each<T>(g.strip, shape)) g.lanes = g.strip;
  if (g.lanes == 0) g.lanes = lanes_for<T>(g.strip, vectors);
  const bool a_vector_each = g.lanes * kVectorLength<T> == g.strip || g.strip < kVectorStrip;
  if (g.packing == Packing::always && !(can_pack<T>(g.strip) && a_vector_each)) {
    fail(
        "balanced: B was to be packed for strips of {} columns on {} lanes; give strips of {} or {} with a "
        "vector of {} a lane",
        g.strip, g.lanes, kLineBytes / sizeof(T), 2 * kLineBytes / sizeof(T), kVectorLength<T>);
  }
  if (g.loads == 0) g.loads = loads_for<T>(g, shape);
  if (g.bands == 0) g.bands = 1;
  const Residency residency = residency_of_strips<T>(g, vectors);  // throws if there is no such form
  if (g.share == 0 && g.slack == 0 && vectors && has_many(shape) && is_local(shape))
    g = among_neighbours<T>(g, shape);
  if (g.share == 0) g.share = share_for(shape, g, residency);
  if (g.slack == 0) g.slack = slack_for(g.share, g.bands, shape);
  return g;
}

template <class T>
Division divide(Index n_cols, Index strip, bool aligned) {
  const Index few = aligned ? 0 : thin_rest<T>(n_cols);
  const Index wide = n_cols - few, over = wide % strip;
  Index rest = (wide > strip || few > 0) && over <= strip / 2 ? over : 0;
  if (rest > 0 && wide > strip && !aligned && strip >= kVectorStrip) rest += strip;
  return {.whole = wide - rest, .rest = rest, .few = few};
}

template <class T>
Granularity for_rest(Index columns, bool aligned) {
  const Index strip = columns <= 8 ? 8 : columns <= 16 ? 16 : columns <= 32 ? 32 : columns <= 64 ? 64 : 96;
  return {.strip = strip, .lanes = lanes_for<T>(strip, aligned), .loads = 4, .block = Index{kSmallBlock}};
}

STAGES_FOR_VALUES(sampled_fresh_share)
STAGES_FOR_VALUES(shape_of)
STAGES_FOR_VALUES(takes_vectors)
STAGES_FOR_VALUES(resolve)
STAGES_FOR_VALUES(divide)
STAGES_FOR_VALUES(for_rest)

}  // namespace stages::spmm
